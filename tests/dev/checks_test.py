# SPDX-License-Identifier: Apache-2.0
"""The check scripts find what is planted in a small tree, and nothing in a clean one."""
import pathlib
import random
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/dev"))
import check_documents  # noqa: E402
import check_layers  # noqa: E402
import check_sizes  # noqa: E402
import error_reference  # noqa: E402

LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def plant(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def layers(self):
        return check_layers.check_tree(self.root)

    def sizes(self):
        return check_sizes.check_tree(self.root)


class Layers(Tree):
    def test_downward_includes_and_homes_pass(self):
        self.plant("src/engine/network/a.cpp", '#include "src/data/dataset.h"\n#include <fmt/format.h>\n#include "b.h"\n')
        self.plant("src/engine/network/b.h", '#include "src/nn/graph.h"\n#include "nn/keys.h"\n')
        self.plant("src/data/c.cpp", "#include <netcdf>\n#include <zlib.h>\n")
        self.plant("kernels/cuda/d.cu", "#include <cublasLt.h>\n#include <cuda_runtime.h>\n")
        self.plant("tools/e.cpp", "#include <CLI/CLI.hpp>\nvoid f() { std::cout << 1; }\n")
        self.plant("tests/engine/f_test.cpp", "#include <netcdf>\n#include <gtest/gtest.h>\n")
        self.assertEqual(self.layers(), [])

    def test_upward_include_is_found(self):
        for name, header in [("src/base/a.cpp", "norn/tensor/views.h"), ("src/nn/a.h", "src/data/dataset.h"),
                             ("include/norn/nn/a.h", "src/base/text.h"),
                             ("kernels/cuda/a.cuh", "src/nn/graph.h"), ("src/data/a.cpp", "kernels/cpu/families.h"),
                             ("src/engine/network/a.cpp", "tools/common/progress.h")]:
            with self.subTest(name):
                self.plant(name, f'#include "{header}"\n')
                self.assertEqual(len(self.layers()), 1, self.layers())
                (self.root / name).unlink()

    def test_folders_of_the_engine_have_an_order(self):
        floors = check_layers.FLOORS["engine"]
        low, high = sorted(random.sample(range(len(floors)), 2))
        self.plant(f"src/engine/{floors[high]}/a.cpp", f'#include "src/engine/{floors[low]}/b.h"\n')
        self.assertEqual(self.layers(), [])
        self.plant(f"src/engine/{floors[low]}/c.cpp", f'#include "src/engine/{floors[high]}/a.h"\n')
        self.assertEqual(len(self.layers()), 1, self.layers())
        (self.root / f"src/engine/{floors[low]}/c.cpp").unlink()
        self.plant("src/engine/c.cpp", "")
        self.assertEqual(len(self.layers()), 1, self.layers())

    def test_third_party_header_outside_its_home_is_found(self):
        for name, header in [("src/engine/network/a.cpp", "netcdf"), ("src/nn/a.cpp", "zlib.h"), ("src/nn/a.cpp", "mpi.h"),
                             ("src/engine/network/a.cpp", "json/json.h"), ("src/engine/network/a.cpp", "CLI/CLI.hpp"),
                             ("src/base/a.cpp", "spdlog/spdlog.h"), ("src/data/a.cpp", "cblas.h"),
                             ("src/engine/network/a.cpp", "tensorboard.pb.h"), ("src/nn/a.cpp", "google/protobuf/message.h"),
                             ("src/engine/network/a.cu", "cuda_runtime.h"), ("tools/a.cpp", "gtest/gtest.h")]:
            with self.subTest(f"{name} {header}"):
                self.plant(name, f"#include <{header}>\n")
                self.assertEqual(len(self.layers()), 1, self.layers())
                (self.root / name).unlink()

    def test_library_that_prints_or_ends_the_process_is_found(self):
        for statement in ["std::cout << 1;", "std::exit(1);", 'printf("x");', "abort();"]:
            with self.subTest(statement):
                self.plant("src/base/a.cpp", f"void f() {{ {statement} }}\n")
                self.assertEqual(len(self.layers()), 1)

    def test_options_in_messages_of_the_library_are_found(self):
        self.plant("src/data/a.cpp", '// as --batch says\nauto s = "give a smaller --batch";\n')
        self.assertEqual(len(self.layers()), 1, self.layers())
        self.plant("src/data/a.cpp", '// as --batch says\nauto s = "give a smaller `batch`, a -- b";\n')
        self.plant("tools/a.cpp", 'auto s = "give a smaller --batch";\n')
        self.assertEqual(self.layers(), [])

    def test_words_in_comments_and_members_are_no_printing(self):
        self.plant("src/parallel/a.cpp", '// abort() it\n[[noreturn]] void abort(int);\nauto s = "exit(1)"; x.abort(2);\n')
        self.assertEqual(self.layers(), [])

    def test_unknown_layer_is_found(self):
        self.plant("src/misc/a.cpp", "")
        self.assertEqual(len(self.layers()), 1)


class Sizes(Tree):
    def test_short_file_passes(self):
        self.plant("src/base/a.cpp", LICENCE + "int f(int x) {\n  return x;\n}\n")
        self.assertEqual(self.sizes(), [])

    def test_long_files_are_found(self):
        for name in ["src/base/a.cpp", "kernels/cuda/a.cuh", "tools/a.sh", "tests/a.py"]:
            with self.subTest(name):
                comment = "#" if name.endswith(("py", "sh")) else "//"
                self.plant(name, f"{comment} SPDX-License-Identifier: Apache-2.0\n" + f"{comment}\n" * 500)
                self.assertEqual(len(self.sizes()), 1)
                (self.root / name).unlink()

    def test_long_functions_are_found(self):
        body = "  x += 1;\n" * 60
        for head in ["int f(int x) {\n", "template <typename T>\nT Class<T>::f(T x,\n             T y) const {\n",
                     "namespace {\n__global__ void f(float* x) {\n", "class A {\n public:\n  int f(int x) {\n"]:
            with self.subTest(head):
                closing = "  }\n};\n" if head.startswith("class") else "}\n"
                self.plant("src/base/a.cpp", LICENCE + head + body + closing)
                self.assertEqual(len(self.sizes()), 1, self.sizes())
        self.plant("src/base/a.cpp", LICENCE)
        self.plant("tools/a.py", "# SPDX-License-Identifier: Apache-2.0\ndef f(x):\n" + "    x += 1\n" * 60)
        self.assertEqual(len(self.sizes()), 1)
        self.plant("tools/a.py", "# SPDX-License-Identifier: Apache-2.0\n")
        self.plant("tools/a.sh", "# SPDX-License-Identifier: Apache-2.0\nf() {\n" + "  echo\n" * 60 + "}\n")
        self.assertEqual(len(self.sizes()), 1)

    def test_long_lines_of_python_are_found(self):
        for line, found in (("x = " + "1" * 136, 0), ("x = " + "1" * 137, 1), ("x = " + "é" * 136, 0), ("x = " + "1" * 130 + "  # type: ignore[a]", 0),
                            ("x = " + "1" * 130 + "  # a comment", 1)):
            with self.subTest(line):
                self.plant("tests/a.py", f"# SPDX-License-Identifier: Apache-2.0\n{line}\n")
                self.assertEqual(len(self.sizes()), found)

    def test_long_class_or_namespace_is_no_function(self):
        self.plant("src/base/a.h", LICENCE + "namespace norn {\nclass A : public B<int(int)> {\n" + "  int x;\n" * 80 + "};\n}\n")
        self.assertEqual(self.sizes(), [])

    def test_missing_licence_line_is_found(self):
        self.plant("src/base/a.cpp", "int x;\n")
        self.assertEqual(len(self.sizes()), 1)

    def test_scripts_that_cannot_be_executed_are_found(self):
        self.plant("tests/bench/a.py", "#!/usr/bin/env python3\n# SPDX-License-Identifier: Apache-2.0\n")
        self.assertEqual(self.sizes(), ["tests/bench/a.py: begins with #! and is not executable"])
        (self.root / "tests/bench/a.py").chmod(0o755)
        self.assertEqual(self.sizes(), [])


class Documents(Tree):
    def test_names_of_existing_files_pass(self):
        self.plant("docs/a.md", "[b](b.md#part) and tools/c.sh and https://example.org/docs/x.md and tests/LAYER/x.cpp")
        self.plant("docs/b.md", "[a](a.md) (tests/*_test.cpp)")
        self.plant("tools/c.sh", "# docs/a.md\n")
        self.assertEqual(check_documents.check_tree(self.root), [])

    def test_names_of_missing_files_are_found(self):
        for name, text in [("README.md", "[x](docs/y.md)"), ("docs/a.md", "[x](y.md)"), ("docs/a.md", "see tools/y.sh."),
                           ("src/base/a.cpp", "// docs/y.md\n")]:
            with self.subTest(f"{name} {text}"):
                self.plant(name, text)
                self.assertEqual(len(check_documents.check_tree(self.root)), 1)
                (self.root / name).unlink()

    def test_pages_that_call_programs_without_the_box_are_found(self):
        box = "> **Two names.** `norn train` is `trainer`.\n> Both.\n"
        self.plant("docs/index.md", f"# Documents\n\n{box}\n[a](user/a.md)")
        for text, wanted in [("`trainer --plan`", 1), ("```\ncd x && build/bin/trainer -c a.json\n```\n", 1),
                             ("```sh\n./report.py -o x\n```\n", 1),
                             ("What `trainer` does - see the trainer.", 0), ("`mytrainer --plan`", 0),
                             ("Generated by x.\n`trainer --plan`", 0),
                             (f"{box}\n`trainer --plan`", 0), (f"{box.replace('Both', 'All')}\n`trainer --plan`", 1),
                             ("\n" * 30 + f"{box}\n`trainer --plan`", 1)]:
            with self.subTest(text):
                self.plant("docs/user/a.md", f"# Title\n\n{text}\n")
                self.assertEqual(len(check_documents.check_tree(self.root)), wanted)

    def test_pages_that_no_reader_is_led_to_are_found(self):
        self.plant("docs/user/a.md", "# Title\n")
        self.plant("docs/index.md", "> Two names.\n\n[a](user/a.md)\n")
        self.assertEqual(check_documents.check_tree(self.root), [])
        self.plant("docs/user/b.md", "# Another\n")
        self.assertEqual(len(check_documents.check_tree(self.root)), 1)

    def test_a_document_of_another_version_is_found(self):
        def plant(project="1.10.2", changes="1.10.2", cited="1.10.2", example="1.10.2"):
            self.plant("CMakeLists.txt", f"project(norn VERSION {project} LANGUAGES CXX)\n")
            self.plant("CHANGELOG.md", f"## [Unreleased]\n\n## [{changes}] - 2027-01-31\n\n## [1.9.0] - 2026-12-31\n")
            self.plant("CITATION.cff", f"cff-version: 1.2.0\nversion: {cited}\n")
            self.plant("docs/user/errors.md", f'{{"program": "trainer", "version": "{example}"}}\n')
            return check_documents.check_tree(self.root)

        self.assertEqual(plant(), [])
        for other in ({"changes": "1.9.0"}, {"cited": "1.10"}, {"example": "1.1.2"}):
            with self.subTest(**other):
                self.assertEqual(len(plant(**other)), 1)
        self.assertEqual(len(plant(project="1.11.0")), 3)


class Errors(Tree):
    def errors(self, source, test, untested=""):
        self.plant("src/data/a.cpp", source)
        self.plant("tests/data/a_test.cpp", test)
        self.plant("tools/dev/untested_errors.txt", "# some words\n" + untested)
        return error_reference.check_tree(self.root)

    def test_messages_with_a_test_pass(self):
        source = 'throw DataError(fmt::format("{}: the file has {:.2f} "\n "wings, expected {{2}}", a, b));'
        self.assertEqual(self.errors(source, 'EXPECT_EQ(m, "x.nc: the file has 3.00 wings, " "expected {2}");'), [])
        self.assertEqual(self.errors('throw UsageError("--a " + b + " cannot be flown");', 'm == "--a 3 cannot be flown"'), [])

    def test_messages_without_one_are_found(self):
        source = '// throw DataError("a comment is no error");\nthrow DataError(fmt::format("{}: has {} wings too many", a, b));'
        self.assertEqual(len(self.errors(source, 'HasSubstr("wings too many")')), 1)
        self.assertEqual(len(self.errors(source, "")), 1)
        self.assertEqual(self.errors(source, "", "…: has … wings too many\n"), [])

    def test_settings_are_options_where_a_program_has_them(self):
        self.assertEqual(error_reference.with_options("`validation_split` or `unit_labels` of `{}`, a `Word`"),
                         "--validation-split or `unit_labels` of --{}, a `Word`")

    def test_what_is_listed_must_be_untested(self):
        source = 'throw DataError("it has too many wings");'
        self.assertEqual(len(self.errors(source, 'm == "it has too many wings"', "it has too many wings\n")), 1)
        self.assertEqual(len(self.errors("", "", "it has too many wings\n")), 1)


if __name__ == "__main__":
    unittest.main()
