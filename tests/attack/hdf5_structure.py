# SPDX-License-Identifier: Apache-2.0
"""HDF5 files that name other files, by every way that the format has, whose groups have no end, or which say that they hold more than
they do: what lies outside is never opened, and memory is that of what is there."""
import ctypes
import ctypes.util
import re
import shutil
import zlib

import numpy as np

import mutations
from cases import SANITIZED, STRACE, Finding
from material import TRAIN
from mutants import OUTPUTS

HDF5 = ctypes.CDLL(ctypes.util.find_library("hdf5_serial") or ctypes.util.find_library("hdf5"))
BAIT = "bait.secret"
ADDRESSES = 1 << 30  # bytes of each process; a whole file needs a third of it
MARGIN = 32 << 20  # bytes of memory beyond that for the whole file, and four times the size of the file
BOMB_BYTES = 1 << 27
LARGE = (70000, 2**27, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40)
THREADS = ("--threads", "1")
PREDICT = ("predictor", "-n", "model.nc", "--data", "plain.nc", "-s", "out.txt", *THREADS)
READERS = [("plain.nc", PREDICT), ("plain.nc", ("evaluator", "-n", "model.nc", "-i", "plain.nc", *THREADS)),
           ("train.nc", TRAIN), ("bare.nc", ("predictor", "-n", "bare.nc", "--data", "plain.nc", "-s", "out.txt", *THREADS)),
           ("bare_checkpoint.nc", (*TRAIN, "--resume", "bare_checkpoint.nc"))]
LEADS_OUT = ("external link", "external storage", "virtual", "soft link", "cycle", "deep")
Id, Size, Text = ctypes.c_int64, ctypes.c_uint64, ctypes.c_char_p


def call(name, *arguments, result=Id):
    function = getattr(HDF5, name)
    function.restype = result
    got = function(*arguments)
    if got < 0:
        raise RuntimeError(f"{name}: {got}")
    return got


def type_id(name):
    call("H5open", result=ctypes.c_int)
    return Id.in_dll(HDF5, name)


def extent_of(size):
    return Id(call("H5Screate_simple", 1, (Size * 1)(size), None))


def add_data(file, name, how, size, bait):
    plist = Id(call("H5Pcreate", type_id("H5P_CLS_DATASET_CREATE_ID_g")))
    space = extent_of(size)
    if how == "external storage":
        call("H5Pset_external", plist, bait, Id(0), Size(size), result=ctypes.c_int)
    elif how == "virtual":
        call("H5Pset_virtual", plist, space, bait, Text(b"x"), space, result=ctypes.c_int)
    elif how == "filter":
        call("H5Pset_chunk", plist, 1, (Size * 1)(size), result=ctypes.c_int)
        call("H5Pset_deflate", plist, 9, result=ctypes.c_int)
    call("H5Oclose", Id(call("H5Dcreate2", file, name, type_id("H5T_STD_U8LE_g"), space, Id(0), plist, Id(0))), result=ctypes.c_int)


def add_group(file, name):
    return call("H5Oclose", Id(call("H5Gcreate2", file, name, Id(0), Id(0), Id(0))), result=ctypes.c_int)


def add(random, file, where, how, bait):
    """One more structure below the group `where`, in place of a variable now and then."""
    name = where + random.choice((b"x", b"exampleLabels0", b"sparseIndex0", b"weight0_weights")) + str(random.randrange(10**6)).encode()
    if how == "external link":
        call("H5Lcreate_external", bait, Text(b"/"), file, name, Id(0), Id(0), result=ctypes.c_int)
    elif how == "soft link":
        call("H5Lcreate_soft", Text(random.choice((b"/", b"/none", b"."))), file, name, Id(0), Id(0), result=ctypes.c_int)
    elif how == "hard link":
        add_data(file, name, "filter", 8, bait)
        call("H5Lcreate_hard", file, name, file, name + b"again", Id(0), Id(0), result=ctypes.c_int)
    elif how == "cycle":
        add_group(file, name)
        call("H5Lcreate_hard", file, Text(random.choice((name, where or b"/"))), file, name + b"/back", Id(0), Id(0), result=ctypes.c_int)
    elif how == "deep":
        for _ in range(random.choice((40, 300))):
            add_group(file, name)
            name += b"/g"
    elif how == "group":
        add_group(file, name)
    else:
        add_data(file, name, how, random.choice((1, 800, 100000)), bait)


def replace(random, file, how, bait, names):
    """An item that the program reads goes for one of the same name elsewhere."""
    name = random.choice(names).encode()
    call("H5Ldelete", file, name, Id(0), result=ctypes.c_int)
    if how == "external link":
        return call("H5Lcreate_external", bait, name, file, name, Id(0), Id(0), result=ctypes.c_int)
    return add_data(file, name, how, 800, bait)


def change(random, path, bait, names):
    """What was put into the file."""
    call("H5Eset_auto2", Id(0), None, None, result=ctypes.c_int)
    file = Id(call("H5Fopen", str(path).encode(), 1, Id(0)))
    done, where = [], b"/"
    try:
        for _ in range(random.randrange(1, 4)):
            how = random.choice((*LEADS_OUT, "hard link", "filter", "group"))
            if how in ("external link", "external storage", "virtual") and not done and random.random() < 0.4:
                replace(random, file, how, bait, names)
            else:
                add(random, file, where, how, bait)
            done.append(how)
            if random.random() < 0.3:
                where += b"inner%d/" % random.randrange(10**6)
                add_group(file, where[:-1])
    finally:
        call("H5Fclose", file, result=ctypes.c_int)
    return done


def names_of(path):
    import netCDF4
    with netCDF4.Dataset(path) as file:
        return sorted(set(file.variables) - set(file.dimensions))


def with_zlib(random, path, lines, count):
    """Labels of features that are these lines, in a data set or a model."""
    items = mutations.Items(path)
    items.attributes.pop("norn_sealed", None)
    model = "labels0_count" in items.attributes
    name, of, digits, size = (("labels0", "labels0_count", "labels0_digest", "labels0_lineBytes") if model else
                              ("featureLabels0", "featureLabelCount0", "featureLabelDigest0", "featureLabelLineBytes0"))
    packed = np.frombuffer(lines[1], np.uint8)
    items.attributes |= {of: np.uint64(count), digits: "a" * 64, size: np.uint64(random.choice((lines[0], lines[0], 1, len(lines[1]))))}
    items.dimensions["bomb"] = len(packed)
    items.variables[name] = (np.dtype("u1"), ("bomb",), packed)
    if random.random() < 0.5:
        items.packed.add(name)
        items.chunks[name] = (min(random.choice((1 << 16, 1 << 20)), len(packed)),)
    items.write(path)


BOMBS = {}  # lines of labels that are made once: (bytes, what zlib makes of them)


def bomb_of(line):
    if line not in BOMBS:
        BOMBS[line] = (BOMB_BYTES // len(line) * len(line), zlib.compress(line * (BOMB_BYTES // len(line)), 9))
    return BOMBS[line]


def say_more(random, path):
    """Numbers of the file that are larger than what it holds."""
    how = random.choice(("width", "labels", "labels", "unwritten", "numbers"))
    if how == "labels":
        line = random.choice((b"\n", b"a\n", b"\0", b"x", b"unit1\nunit2\n", b"x" * 70000 + b"\n"))
        bomb = bomb_of(line)
        with_zlib(random, path, bomb, random.choice((41, 7, bomb[0] // len(line), 2**32 - 1, 2**62)))
        return f"labels {line[:12]!r}"
    items = mutations.Items(path)
    items.attributes.pop("norn_sealed", None)
    large = random.choice(LARGE)
    if how == "unwritten" and items.dimensions:
        dimension = random.choice(sorted(items.dimensions))
        items.dimensions[dimension] = large
        for name, (kind, dimensions, values) in items.variables.items():
            if dimension in dimensions:
                items.variables[name] = (kind, dimensions, None)
                if random.random() < 0.5:
                    items.chunks[name] = tuple(min(random.choice((1, 4096, 1 << 20)), items.dimensions[one]) for one in dimensions)
    elif how == "numbers":
        for name in [name for name in items.attributes if re.search("abelCount|labels._count|abelsAreNumbers|_digest|LabelDigest", name)]:
            items.attributes[name] = np.uint64(large if "ount" in name else 1) if "igest" not in name else ""
        items.attributes["width0"] = np.uint64(large)
    else:
        for name in random.sample(("width0", "width1", "layer0_Nx", "layer2_Nx"), 2):
            items.attributes[name] = np.uint64(large)
    items.write(path)
    return f"{how} {large}"


def reseal(path):
    """Appends the seal anew, as anybody can who knows the format: no run of elements, and the CRC-32 of all bytes."""
    data = path.read_bytes() + bytes(8)
    path.write_bytes(data + zlib.crc32(data).to_bytes(4, "little") + b"NornSeal")


CALL = re.compile(r'^(?P<process>\d+) +(?P<call>\w+)\((?:AT_FDCWD, )?"(?P<path>(?:[^"\\]|\\.)*)".* = (?P<result>-?\d+)')


def calls_of(trace):
    """(process, call, path, whether it was done) of each call that names a file."""
    for line in trace.read_text(errors="replace").splitlines():
        found = CALL.match(line)
        if found:
            yield found["process"], found["call"], found["path"], found["result"] != "-1"


def opened_outside(case, trace, known):
    """What was opened that is none of the files which the same program opens with the whole file, and whatever a reader tries to open
    once it has its own."""
    readers, outside = set(), []
    for process, call, path, done in calls_of(trace):
        own = path.startswith("/proc/self/fd/")
        if call == "execve" and path.endswith("/norn_netcdf_reader"):
            readers.add(process)
        elif process in readers and own and call.startswith("open"):
            readers.add(process + " has its file")
        elif call.startswith(("open", "creat", "execve")) and not own:
            tried = process + " has its file" in readers
            if tried or (done and place_of(case, path) not in known):
                outside.append((process, call, path))
    return outside


def place_of(case, path):
    """Without what differs from case to case and from run to run."""
    return re.sub(r"\d+", "N", path.replace(str(case.folder), ".").removeprefix("./"))


WHOLE = {}  # by command: the memory that it takes with whole files, and what it opens


def whole(case, base, command):
    if command not in WHOLE:
        ended = case.run(command[0], *command[1:], traced=case.path("calls"), addresses=ADDRESSES)
        opened = {place_of(case, path) for _, _, path, _ in calls_of(case.path("calls"))} if STRACE else set()
        WHOLE[command] = (ended.peak, opened | {"/dev/null"})  # which is all that a reader, where there was none, opens more
        for output in OUTPUTS:
            case.path(output).unlink(missing_ok=True)
    return WHOLE[command]


def attack(case, base):
    name, command = case.random.choice(READERS)
    case.bring(base, *{word for word in command if isinstance(word, str) and (base / word).is_file()}, name)
    peak, known = whole(case, base, command)
    bait = case.path(BAIT)
    shutil.copyfile(base / name, bait)
    names = names_of(case.path(name))
    done = []
    if case.random.random() < 0.4:
        case.note(f"{name}: {say_more(case.random, case.path(name))}")
    if not case.said or case.random.random() < 0.3:
        done = change(case.random, case.path(name), str(bait).encode(), names)
    sealed = case.random.random() < 0.3
    if sealed:
        reseal(case.path(name))
    case.note(f"{name}: {done}{', sealed' * sealed}")
    ended = case.run(command[0], *command[1:], traced=case.path("calls"), addresses=ADDRESSES)
    most = peak + MARGIN + 4 * case.path(name).stat().st_size
    case.watched(bool(STRACE), ended.peak)
    if STRACE:
        outside = opened_outside(case, case.path("calls"), known)
        if outside:
            raise Finding(f"opens another file: {outside[:3]}: {ended}")
    if set(done) & set(LEADS_OUT) and ended.code != 3:
        raise Finding(f"takes a file that leads elsewhere: {ended}")
    if ended.code == 4 and b"error: this run needs " not in ended.err:  # layers as wide as the data say
        raise Finding(f"needs more than {ADDRESSES >> 20} MiB: {ended}")
    if ended.peak > most and not SANITIZED:
        raise Finding(f"has {ended.peak >> 20} MiB of memory, expected at most {most >> 20}: {ended}")
