# SPDX-License-Identifier: Apache-2.0
"""What the programs say of wrong options and files, word for word. tools/dev/error_reference.py looks here for every message of
the sources."""
import shutil
import unittest

import netCDF4
import numpy as np

from norn_files import write_datasets, write_index, write_text
from programs import ProgramTest

IMPORT = ("-q", "--name", "x", "--output", "x.nc")
TRAIN = ("-c", "net.json", "-i", "train.nc", "-n", "new.nc")
PREDICT = ("-n", "model.nc", "-s", "recs.txt")
REQUESTS = ("-r", "requests.txt", "-i", "features.txt", "-o", "features.txt")
EVALUATE = ("-n", "model.nc", "-i", "test.nc")

# (program, arguments, exit code, message)
IMPORTING = (
    ("importer", (*IMPORT, "-i", "none.txt"), 3,
     "none.txt: no such file or folder; check the path"),
    ("importer", (*IMPORT, "-i", "empty_folder"), 3,
     "empty_folder: the folder has no files; name one with text"),
    ("importer", (*IMPORT, "-i", "empty.txt"), 3,
     "empty.txt: holds no text; name a file with examples"),
    ("importer", (*IMPORT, "-i", "zero.txt"), 3,
     "zero.txt: holds a zero byte, so it is not text; convert it first (from UTF-16, for example)"),
    ("importer", (*IMPORT, "-i", "strange.txt"), 3,
     'strange.txt: the first line "what is this" follows no known format; say which with --format dsstne, '
     "libsvm, csv, tsv or list"),
    ("importer", (*IMPORT, "-i", "table.csv", "--example-column", "0"), 2,
     "column 0: columns are numbered from 1"),
    ("importer", (*IMPORT, "-i", "table.csv", "--example-column", "nobody"), 2,
     'table.csv:1: the header line has no column "nobody". It has: user, item'),
    ("importer", (*IMPORT, "-i", "requests.txt", "--split", "ratio:0.5"), 2,
     "--split ratio:0.5: expected two shares (train/test) or three (train/validation/test), each above 0"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--split", "halves"), 2,
     "--split halves: expected ratio:0.8/0.1/0.1, ratio:0.8/0.2, leave-one-out, time:2026-01-31, "
     "time:2026-01-30/2026-01-31, leave-last-out or new-items:0.1"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--split", "time:2026-02-30"), 2,
     "--split time:2026-02-30: expected ratio:0.8/0.1/0.1, ratio:0.8/0.2, leave-one-out, time:2026-01-31, "
     "time:2026-01-30/2026-01-31, leave-last-out or new-items:0.1"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--split", "time:2026-02-03/2026-02-03"), 2,
     "--split time: expected one time (test begins) or two, the earlier first (validation begins, test begins)"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--split", "leave-last-out"), 2,
     "requests.txt: is dsstne text, which has no times; a split by time needs csv or tsv, with a column for them "
     "(--time-column)"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--split", "leave-last-out", "--split-by", "pair"), 2,
     "a leave-last-out split is by entry; drop --split-by"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--split", "leave-one-out", "--split-by", "example"), 2,
     "a leave-one-out split is by entry; drop --split-by"),
    ("importer", (*IMPORT, "-i", "requests.txt", "-c", "-m"), 2,
     "--new-features starts a new index of features and --merge-features adds to one; choose one of them"),
    ("importer", (*IMPORT, "-i", "requests.txt", "-s", "samples"), 2,
     "--samples needs --features, too"),
    ("importer", (*IMPORT, "-i", "requests.txt", "-s", "samples", "-f", "f", "--target", "requests.txt"), 2,
     "--samples writes one data set; --target, --target-features, --separate-targets and --split are for "
     "two"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--skip-malformed", "-1"), 2,
     "--skip-malformed -1 is out of range: it must be at least 0"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--format", "images", "-c", "--type", "analog", "--split-by", "pair"), 2,
     "--format images does not take --new-features, --type, --split-by pair; leave them out"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--format", "images", "--value-column", "4"), 2,
     "--format images does not take --value-column; leave it out"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--format", "images", "--split", "leave-one-out"), 2,
     "--split leave-one-out: images have no entries and no times; use ratio:0.8/0.2"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--format", "images", "--size", "32"), 2,
     "--size 32: expected WIDTHxHEIGHT, as 32x32, or with channels, 32x32x1 for grey and 32x32x3 for colour"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--size", "32x32"), 2,
     "--size is for images; add --format images, or leave it out"),
    ("importer", (*IMPORT, "-i", "empty_folder", "--format", "images", "--target", "requests.txt"), 2,
     "--target requests.txt: goes with one file of idx images, and --input is a folder; leave it out"),
    ("importer", (*IMPORT, "-i", "requests.txt", "-m"), 2,
     "--merge-features needs the index to be named with --features"),
    ("importer", (*IMPORT, "-i", "labels.libsvm", "--format", "libsvm", "--target-type", "analog"), 2,
     "LibSVM labels have no values; drop --target-type"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--separate-targets"), 2,
     "the input is its own target, so both have the same features; name a --target"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--target", "requests.txt", "--split", "ratio:0.5/0.5"), 2,
     "a split by entry needs an input that is its own target; use --split-by example"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--target", "others.txt"), 3,
     "requests.txt: no example is left that both texts have; check the texts and the indexes"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--target", "others.txt", "--missing-examples", "error"), 3,
     'others.txt: example "example0" of requests.txt is missing; add it, or choose with '
     "--missing-examples drop or empty"),
    ("importer", (*IMPORT, "-i", "labels.libsvm", "--format", "libsvm", "-s", "samples", "-f", "f", "-c"), 2,
     "LibSVM text gives two data sets; import it with --input and --output"),
    ("importer", (*IMPORT, "-i", "others.txt", "-s", "one.samples", "-f", "f", "-c"), 3,
     'others.txt: example "stranger" is not in one.samples, so the rows would not match files written '
     "with it before; use the same examples in all texts, a new --samples file, or --missing-examples empty or "
     "drop"),
    ("importer", ("-q", "-d", "x", "-i", "requests.txt", "-o", "requests.txt"), 2,
     "requests.txt is both read and written; choose another output"),
    ("importer", (*IMPORT, "-i", "requests.txt", "-f", "wrong.index"), 3,
     'wrong.index:1: "item_1" has no tab; an index file has lines of label, tab and number'),
    ("importer", (*IMPORT, "-i", "requests.txt", "-f", "gap.index"), 3,
     'gap.index: the number 7 of label "item_1" is out of range; the numbers of 2 labels must be 0 to 1, '
     "each once"),
    ("importer", (*IMPORT, "-i", "requests.txt", "-s", "samples", "-f", "none.index"), 3,
     "none.index: no such index of features; start a new one with -c"),
    ("importer", (*IMPORT, "-i", "twice.txt"), 3,
     'twice.txt:2: example "u" has been on an earlier line; put its features on one line, or choose with '
     "--repeated-examples merge or last"),
    ("importer", (*IMPORT, "-i", "names.libsvm", "--format", "libsvm", "--libsvm-labels", "numbers"), 3,
     'names.libsvm:1: the label "red" is not a number from 0; number the labels, or take them as names '
     "with --libsvm-labels names"),
    ("importer", (*IMPORT, "-i", "announced.libsvm", "--format", "libsvm"), 3,
     "announced.libsvm:3: the label 7 is out of range, the header announces 3 labels, from 0; correct it "
     "or the header line"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--scratch", "nowhere"), 3,
     "nowhere: temporary file: no file can be made: No such file or directory; free some space or name another "
     "folder with --scratch"),
    ("importer", (*IMPORT, "-i", "others.txt", "-s", "s2", "-f", "known.index"), 3,
     'others.txt:1: example "stranger" has no features that the given index knows; add its features to '
     "the index with -m, or choose with --empty-rows drop or keep"),
    ("importer", (*IMPORT, "-i", "others.txt", "-s", "s2", "-f", "known.index", "--empty-rows", "drop"), 3,
     "others.txt: no features are left for x.nc; check the text and the feature index known.index"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--features", "x.nc"), 2,
     "x.nc would be written twice; choose another output"),
    ("importer", (*IMPORT, "-i", "requests.txt", "--target", "labels.libsvm"), 2,
     "the target is LibSVM text and the input is not; use --separate-targets"),
    ("importer", (*IMPORT, "-i", "others.txt", "-s", "two.samples", "-f", "f", "-c"), 3,
     'others.txt: example "somebody" of two.samples is missing, so the rows would not match files written '
     "with it before; use the same examples in all texts, or choose with --missing-examples empty or drop"),
)
TRAINING = (
    ("trainer", ("-c", "two.json", "-i", "train.nc", "-n", "new.nc", "--validation-split", "0.1"), 2,
     "validation evaluates one output layer, and the network has 2: First, Second; name the one that counts "
     '"Output"'),
    ("trainer", ("-c", "net.json", "-i", "dense_input.nc", "-n", "new.nc"), 3,
     'dense_input.nc: data set "gl_input": example 0: unit 0 is nan, expected a finite number; correct '
     "the data and write the file again"),
    ("trainer", (*TRAIN, "--threads", "-1"), 2,
     "--threads -1 is out of range: it must be at least 0"),
    ("trainer", (*TRAIN, "--gpu", "-1"), 2,
     "--gpu -1 is out of range: it must be at least 0"),
    ("trainer", (*TRAIN, "--data-memory", "much"), 2,
     '--data-memory: "much" is no size; write for example 8G, 512M or 1000000'),
    ("trainer", (*TRAIN, "--plan", "--ranks", "0"), 2,
     "--ranks 0 is out of range: it must be from 1 to 1048576"),
    ("trainer", (*TRAIN, "--ranks", "2"), 2,
     "--ranks plans for ranks that are not there: give --plan too; to train on several ranks start the "
     "trainer with mpirun -n N"),
    ("trainer", (*TRAIN, "--nodes", "2"), 2,
     "--nodes belongs to --plan; give that too, or leave it out"),
    ("trainer", (*TRAIN, "--plan", "--ranks", "4", "--device", "cpu"), 2,
     "--ranks with --device cpu needs --machine: without it the plan is for NVIDIA H200; describe your "
     "nodes as configs/machines/cpu_cluster.json does"),
    ("trainer", (*TRAIN, "--plan-format", "json"), 2,
     "--plan-format json belongs to --plan; give that too, or leave it out"),
    ("trainer", (*TRAIN, "--plan", "--plan-format", "json"), 2,
     "--plan-format json is for plans of a machine; give --ranks or --machine too"),
    ("trainer", (*TRAIN, "--plan", "--ranks", "4", "--nodes", "3"), 2,
     "--nodes 3 does not divide 4 ranks; give --nodes a divisor of them, or leave it out"),
    ("trainer", (*TRAIN, "--plan", "--ranks", "64", "--nodes", "1"), 2,
     '--nodes 1: 64 ranks would stand on each, but the machine "NVIDIA H200, 8 a node, 400 Gb/s a GPU '
     'between nodes (links between nodes not measured)" has room for 8 (RanksPerNode); give --nodes 8 or '
     "more"),
    ("trainer", (*TRAIN, "--device", "cpu", "--data-on-gpu", "yes"), 2,
     "--data-on-gpu yes: this run computes on the CPU; leave it out"),
    ("trainer", (*TRAIN, "--plan", "--ranks", "2", "--machine", "none.json"), 2,
     "none.json: cannot be read; expected the description of a machine in JSON, such as "
     "configs/machines/h200.json"),
    ("trainer", (*TRAIN, "--plan", "--ranks", "2", "--machine", "list.json"), 2,
     "list.json:1: [] is not a machine; expected a JSON object"),
    ("trainer", (*TRAIN, "--validation-split", "2"), 2,
     "--validation-split 2 is out of range: it must be at least 0 and below 1"),
    ("trainer", (*TRAIN, "--validation-split", "0.1", "--validation-input", "test.nc"), 2,
     "--validation-split holds back a part of the training data and --validation-input names data of "
     "their own: give one of the two"),
    ("trainer", (*TRAIN, "--validation-output", "test.nc"), 2,
     "--validation-output needs --validation-input; give that too"),
    ("trainer", (*TRAIN, "--validation-split", "0.1", "--min-delta", "-1"), 2,
     "--min-delta -1 is out of range: it must be at least 0"),
    ("trainer", (*TRAIN, "--validation-split", "0.1", "--metrics-at", "few"), 2,
     '--metrics-at: "few" is no list of numbers from 1 on; write for example 10,20,100'),
    ("trainer", (*TRAIN, "--keep", "99999999999"), 2,
     '--keep: "99999999999" is no whole number from -2147483648 to 2147483647'),
    ("trainer", (*TRAIN, "--keep-best", "ndcg@10"), 2,
     "--keep-best ndcg@10 needs data to validate with; give --validation-split 0.1, or --validation-input"),
    ("trainer", (*TRAIN, "--validation-input", "dense.nc"), 3,
     '--validation-input: data set "gl_output" is dense, but that of the training data is sparse; import '
     "both in the same way"),
    ("trainer", ("-c", "net.json", "-i", "dense.nc", "-n", "new.nc", "--validation-split", "0.1",
                 "--validation-by", "entry"), 2,
     'dense.nc: data set "gl_output" is dense: it has no entries that could be hidden; validate by user, or '
     "with data sets of their own (--validation-input)"),
    ("trainer", ("-c", "net.json", "-i", "dense.nc", "-n", "new.nc", "--validation-split", "0.1",
                 "--early-stop", "ndcg@10"), 2,
     'layer "Output": its targets are dense, so there is no "ndcg@10" to watch; watch the loss'),
    ("trainer", (*TRAIN, "--doctor", "--plan"), 2,
     "--doctor looks at the machine and --plan at a network: give one of the two"),
    ("trainer", (*TRAIN, "--doctor-format", "json"), 2,
     "--doctor-format json belongs to --doctor; give that too, or leave it out"),
    ("trainer", (*TRAIN, "--run-dir", "train.nc/x"), 3,
     "--run-dir train.nc/x: the folder cannot be made: Not a directory; give another one"),
    ("trainer", (*TRAIN, "--collective-timeout", "0"), 2,
     "--collective-timeout 0 is out of range: it must be above 0"),
    ("trainer", ("-c", "train.nc", "-i", "train.nc", "-n", "new.nc"), 3,
     'train.nc: is no model file: it has no attributes "layers" and "errorFunction"; give a file that '
     "trainer wrote"),
    ("trainer", ("-c", "unbound.json", "-i", "train.nc", "-n", "new.nc"), 2,
     'unbound.json:1: layer "Output2": names no DataSet; an Output layer needs one'),
    ("trainer", ("-c", "dropped_output.json", "-i", "train.nc", "-n", "new.nc"), 2,
     'dropped_output.json:1: layer "Output2": pDropout 0.5 on an Output layer is not supported; move it to the Hidden layer '
     "before it"),
    ("trainer", ("-c", "dropped_softmax.json", "-i", "train.nc", "-n", "new.nc"), 2,
     'dropped_softmax.json:1: layer "Hidden1": pDropout 0.5 on a SoftMax layer is not supported; remove one of the two'),
    ("trainer", ("-c", "others.json", "-i", "train.nc", "-n", "new.nc"), 3,
     'others.json:1: layer "Output2": data set "gl_outputs" is in none of the files; did you mean "gl_output"? They '
     "hold: gl_input, gl_output"),
    ("trainer", ("-c", "narrow.json", "-i", "train.nc", "-n", "new.nc"), 2,
     'narrow.json:1: layer "Hidden2": Skip "Hidden1" has 4 units, this layer has 3; they must be the same'),
    ("trainer", (*TRAIN, "--resume", "bare.nc"), 3,
     "bare.nc: holds no training state to resume from; give it as --config to start a new run with its "
     "weights"),
    ("trainer", ("-c", "newer.nc", "-i", "train.nc", "-n", "new.nc"), 3,
     "newer.nc: the end of the file is missing: it was cut off, or another program changed it; use an "
     "older copy of the file, or delete its attribute norn_sealed if the change was wanted"),
)
PREDICTING = (
    ("predictor", ("-n", "two.nc", "-s", "recs.txt", *REQUESTS), 2,
     "--layer is missing: the model has 2 output layers; choose of: Hidden2, First, Second"),
    ("predictor", ("-n", "two.nc", "-s", "recs.txt", "-l", "First", *REQUESTS), 2,
     "--requests: the model has 2 input layers (gl_input, gl_input), but text feeds one; import the "
     "requests and give them with --data"),
    ("predictor", ("-n", "bad_loss.nc", "-s", "recs.txt", *REQUESTS), 3,
     "bad_loss.nc: errorFunction 99 is unknown; expected 0 to 7"),
    ("predictor", ("-n", "bad_activation.nc", "-s", "recs.txt", *REQUESTS), 3,
     "bad_activation.nc: layer 1: activation 77 is unknown; expected 0 to 14 without 4"),
    ("predictor", ("-n", "bad_scheme.nc", "-s", "recs.txt", *REQUESTS), 3,
     "bad_scheme.nc: layer 1: weightInit 55 is unknown; expected 0 to 6"),
    ("predictor", ("-n", "no_weights.nc", "-s", "recs.txt", *REQUESTS), 3,
     'no_weights.nc: variable "weight0_weights" is missing; the file is damaged or of another network'),
    ("predictor", ("-n", "future.nc", "-s", "recs.txt", *REQUESTS), 3,
     "future.nc: model format 99 is newer than this program, which reads up to 1; use a newer Norn"),
    ("predictor", ("-n", "bad_text.nc", "-s", "recs.txt", *REQUESTS), 3,
     "bad_text.nc: the descriptor in the model is damaged: bad_text.nc:1: Layers is missing; expected an "
     "array of layers, or one layer"),
    ("predictor", ("-n", "text_number.nc", "-s", "recs.txt", *REQUESTS), 3,
     'text_number.nc: attribute "layer1_activation" is text, expected a whole number; the file may be '
     "damaged or of another kind"),
    ("predictor", ("-n", "none.nc", "-s", "recs.txt", *REQUESTS), 3,
     "none.nc: no such file; check the path"),
    ("predictor", ("-n", "empty_folder", "-s", "recs.txt", *REQUESTS), 3,
     "empty_folder: is a folder, expected a NetCDF file"),
    ("predictor", (*PREDICT, *REQUESTS, "--layer", "Outputt"), 2,
     '--layer: the model has no layer "Outputt"; did you mean "Output"? It has: Hidden, Output'),
    ("predictor", ("-n", "dangling.nc", "-s", "recs.txt", *REQUESTS, "-l", "Dangling"), 2,
     '--layer: "Dangling" leads to no output layer: it is not computed'),
    ("predictor", (*PREDICT, "-r", "header.libsvm", "-i", "features.txt", "-o", "features.txt"), 3,
     "header.libsvm: holds no requests; name a file with examples"),
    ("predictor", (*PREDICT, *REQUESTS, "-p", "5d"), 2,
     '--score-format: "5d" is no printf format of a number; write for example 4.3f, .6e or g'),
    ("predictor", (*PREDICT, *REQUESTS, "--data", "test.nc"), 2,
     "--requests and --data exclude each other: give one of the two"),
    ("predictor", (*PREDICT,), 2,
     "--requests (-r) is missing: give text, or data sets with --data"),
    ("predictor", (*PREDICT, "--data", "test.nc", "--values"), 2,
     "--values is for --requests; --data has its own"),
    ("predictor", (*PREDICT, "--data", "test.nc", "--allow", "features.txt"), 2,
     "--allow names features: give the feature index --output-features (-o)"),
    ("predictor", (*PREDICT, "--data", "test.nc", "--filter", "requests.txt"), 2,
     "--filter (-f) names features: give the feature index --output-features (-o)"),
    ("predictor", ("-n", "model.nc", "-s", "-", "--data", "test.nc", "--format", "netcdf"), 2,
     "--output -: NetCDF needs a file; give a name, or --format text"),
    ("predictor", (*PREDICT, "-r", "requests.txt"), 2,
     "requests.txt:1: the requests name features, but their numbers are not known; give the feature index "
     "with --input-features (-i)"),
    ("predictor", (*PREDICT, *REQUESTS, "--allow", "none.txt"), 3,
     "none.txt: cannot be opened; --allow names a file of feature labels, one a line"),
    ("predictor", (*PREDICT, *REQUESTS, "--allow", "empty.txt"), 3,
     "empty.txt: none of its 0 lines is a feature of the output index; write one label a line"),
    ("predictor", (*PREDICT, "-r", "empty.txt", "-i", "features.txt"), 3,
     "empty.txt: holds no text; name a file with examples"),
    ("predictor", (*PREDICT, "-r", "requests.txt", "-i", "features.txt", "-o", "empty.txt"), 3,
     "empty.txt: the feature index is empty; give the one that the importer wrote"),
    ("predictor", (*PREDICT, *REQUESTS, "-k", "0"), 2,
     "--top 0 is out of range: it must be at least 1"),
    ("predictor", (*PREDICT, *REQUESTS, "-b", "0"), 2,
     "--batch 0 is out of range: it must be at least 1"),
    ("predictor", (*PREDICT, *REQUESTS, "-d", "other"), 2,
     "--dataset (-d) other: no input layer reads \"other_input\"; the model's reads: gl_input"),
)
EVALUATING = (
    ("evaluator", (*EVALUATE, "--propensity", "few", "--popularity", "train.nc"), 2,
     '--propensity: "few" is no pair of numbers above 0; write for example 0.55,1.5'),
    ("evaluator", (*EVALUATE, "--popularity", "dense.nc"), 3,
     'dense.nc: data set "gl_output" is dense; popularity counts sparse entries'),
    ("evaluator", ("-n", "model.nc", "-i", "nothing.nc"), 3,
     'nothing.nc: data set "gl_output" holds nothing to be found: every example of it is empty, or all that is in it '
     "is unknown to the model, as new items are before they are added; use the held-out part of a split"),
    ("evaluator", (*EVALUATE, "--top", "ten"), 2,
     '--top: "ten" is no list of numbers from 1 on; write for example 10,20,100'),
    ("evaluator", (*EVALUATE, "--features", "many.txt"), 3,
     'layer "Output": 50 units are to be ranked, but it has 40; evaluate with the feature index of the data '
     "that the model was made for"),
    ("evaluator", (*EVALUATE, "-b", "0"), 2,
     "--batch 0 is out of range: it must be at least 1"),
    ("evaluator", (*EVALUATE, "--allow", "features.txt"), 2,
     "--allow names features: give the feature index of the output, --features"),
    ("evaluator", (*EVALUATE, "--features", "features.txt", "--allow", "none.txt"), 3,
     "none.txt: cannot be opened; --allow names a file of feature labels, one a line"),
    ("evaluator", (*EVALUATE, "--features", "features.txt", "--allow", "empty.txt"), 3,
     "empty.txt: none of its 0 lines is a feature of the output index; write one label a line"),
    ("evaluator", ("-n", "model.nc", "-i", "nothing.nc", "--features", "features.txt", "--allow", "wrong.index"), 3,
     'nothing.nc: data set "gl_output" holds nothing to be found: no example of it has any of the 1 units that are ranked; '
     "name others, or rank all"),
    ("evaluator", (*EVALUATE, "-l", "Hidden"), 2,
     '--layer: "Hidden" is no output layer; metrics need one'),
    ("evaluator", (*EVALUATE, "--exclude", "short.nc"), 3,
     "short.nc: --exclude: no sparse data set with 160 examples and at most 40 units in it"),
    ("evaluator", (*EVALUATE, "--popularity", "short.nc"), 3,
     'short.nc: --popularity: there is no data set "gl_output" in it. It holds: other'),
    ("evaluator", ("-n", "model.nc", "-i", "wider.nc"), 2,
     'model.nc: layer "Output": N is 40, but data set "gl_output" is 99 wide; N must not be smaller '
     "(\"auto\" takes the data set's width)"),
    ("evaluator", ("-n", "model.nc", "-i", "dense.nc"), 3,
     'dense.nc: data set "gl_output" is dense, but ranking metrics need the held-out units of each '
     "example as a sparse set"),
)
DATA_FILES = (
    ("trainer", ("-c", "net.json", "-n", "new.nc", "-i", "no_sets.nc"), 3,
     'no_sets.nc: attribute "datasets" is missing, so this is not a file of data sets; make one with '
     "importer"),
    ("trainer", ("-c", "net.json", "-n", "new.nc", "-i", "same_names.nc"), 3,
     'same_names.nc: two data sets are named "gl_input"; names must differ'),
    ("trainer", ("-c", "net.json", "-n", "new.nc", "-i", "no_width.nc"), 3,
     'no_width.nc: data set "gl_input": attribute width0 is 0, expected at least 1; write the file again '
     "with importer"),
    ("trainer", ("-c", "net.json", "-n", "new.nc", "-i", "unknown_bits.nc"), 3,
     'unknown_bits.nc: data set "gl_input": attribute attributes0 is 1027, which has unknown bits; known: '
     "1 to 128; write the file again with importer"),
    ("trainer", ("-c", "net.json", "-n", "new.nc", "-i", "numbered_name.nc"), 3,
     "numbered_name.nc: data set number 0: attribute name0 is a number, expected text; write the file "
     "again with importer"),
    ("trainer", ("-c", "net.json", "-n", "new.nc", "-i", "beyond.nc"), 3,
     'beyond.nc: data set "gl_input": example 0: column 40 is out of range, expected 0 to 39; correct the '
     "data and write the file again"),
    ("trainer", ("-c", "net.json", "-n", "new.nc", "-i", "crossed.nc"), 3,
     'crossed.nc: data set "gl_input": example 0: its entries are 2 to 1, expected an ordered range '
     "within 0 to 320; write the file again"),
    ("trainer", ("-c", "net.json", "-n", "new.nc", "-i", "not_finite.nc"), 3,
     'not_finite.nc: data set "gl_input": example 0: a value is nan, expected a finite number; correct '
     "the data and write the file again"),
    ("trainer", ("-c", "net.json", "-n", "new.nc", "-i", "repeated_target.nc"), 3,
     'repeated_target.nc: data set "gl_output": example 0: column 3 occurs twice, which a target may not; '
     "remove the duplicate and write the file again"),
    ("trainer", ("-c", "net.json", "-n", "new.nc", "-i", "too_long.nc"), 3,
     'too_long.nc: data set "gl_input": example 1: its entries are 2 to 1000000, expected an ordered '
     "range within 0 to 320; write the file again"),
    ("trainer", ("-c", "net.json", "-n", "new.nc", "-i", "missing.nc"), 3,
     'net.json:7: layer "Output": data set "gl_output" is in none of the files; did you mean "gl_input"? They hold: '
     "gl_input"),
    ("trainer", ("-c", "net.json", "-n", "new.nc", "-i", "misaligned.nc"), 3,
     'misaligned.nc: data set "gl_output" has 159 examples, but "gl_input" of misaligned.nc has 160; '
     "import both together so that they are aligned by example"),
    ("trainer", ("-c", "net.json", "-n", "new.nc", "-i", "text_width.nc"), 3,
     'text_width.nc: data set "gl_input": attribute width0 is text, expected a whole number; write the '
     "file again with importer"),
    ("trainer", ("-c", "net.json", "-n", "new.nc", "-i", "not_indexed.nc"), 3,
     'not_indexed.nc: data set "gl_input": attribute width0 is 1.5, expected a whole number >= 0; write '
     "the file again with importer"),
    ("trainer", ("-c", "net.json", "-n", "new.nc", "-i", "too_wide.nc"), 3,
     'too_wide.nc: data set "gl_input": it is wider than 4294967296 units; write the file again with '
     "importer"),
)


class Messages(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.first = cls("run_nothing")
        ProgramTest.setUp(cls.first)
        cls.first.prepare()
        cls.addClassCleanup(cls.first.doCleanups)

    def setUp(self):
        self.folder, self.width = self.first.folder, self.first.width

    def run_nothing(self):
        """For the folder that all cases share: none of them changes it."""

    def edit(self, name, change, source):
        """A copy of a file, changed."""
        shutil.copy(self.path(source), self.path(name))
        with netCDF4.Dataset(self.path(name), "a") as file:
            change(file)

    def prepare(self):
        self.train("-e", "1")
        self.write_texts()
        self.write_networks()
        self.write_data()

    def write_texts(self):
        write_text(self.path("requests.txt"), self.known, [f"item_{u}" for u in range(self.width)], self.examples)
        write_index(self.path("features.txt"), [f"item_{u}" for u in range(self.width)])
        write_index(self.path("many.txt"), [f"item_{u}" for u in range(50)])
        self.path("empty_folder").mkdir()
        for name, text in {
                "empty.txt": "", "header.libsvm": "0 40 3\n", "zero.txt": "a\tb\0c\n", "strange.txt": "what is this\n",
                "table.csv": "user,item\nu1,i1\nu2,i2\n", "labels.libsvm": "0,1 2:1\n1 3:0.5\n",
                "names.libsvm": "red 2:1\n", "announced.libsvm": "2 5 3\n0 1:1\n7 2:1\n", "others.txt": "stranger\titem_1\n",
                "one.samples": "somebody\t0\n", "wrong.index": "item_1\n", "gap.index": "item_0\t0\nitem_1\t7\n",
                "two.samples": "stranger\t0\nsomebody\t1\n", "known.index": "item_99\t0\n", "twice.txt": "u\ta:b\nu\tc\n"}.items():
            self.write(name, text)

    def write_networks(self):
        layers = '{"Layers": [{"N": 40, "DataSet": "gl_input"}, %s, {"N": 40, "DataSet": "%s"%s}]}'
        for name, hidden, target, more in (
                ("unbound.json", '{"N": 4}', "", ""), ("dropped_output.json", '{"N": 4}', "gl_output", ', "pDropout": 0.5'),
                ("dropped_softmax.json", '{"N": 4, "Activation": "SoftMax", "pDropout": 0.5}', "gl_output", ""),
                ("others.json", '{"N": 4}', "gl_outputs", ""), ("narrow.json", '{"N": 4}, {"N": 3, "Skip": "Hidden1"}', "gl_output", "")):
            self.write(name, layers % (hidden, target, more))
        self.write("list.json", "[]")
        self.edit("bare.nc", lambda file: [file.delncattr(name) for name in file.ncattrs() if name.startswith("norn_")], "model.nc")
        self.edit("newer.nc", lambda file: file.setncattr("norn_format", np.int32(99)), "model.nc")
        self.write("two.json", '{"Layers": [{"Name": "I", "N": 40, "DataSet": "gl_input"}, {"Name": "J", "Kind": "Input", "N": 40, '
                   '"DataSet": "gl_input"}, {"N": 4, "Source": ["I", "J"]}, {"Name": "First", "Kind": "Output", "N": 40, '
                   '"DataSet": "gl_output"}, {"Name": "Second", "N": 40, "Source": "Hidden2", "DataSet": "gl_output"}]}')
        self.train("-e", "1", config="two.json", model="two.nc")
        self.write("dangling.json", layers % ('{"N": 4}, {"Name": "Dangling", "N": 3}', "gl_output", ', "Source": "Hidden1"'))
        self.train("-e", "1", config="dangling.json", model="dangling.nc")
        for name, change in {
                "bad_loss.nc": lambda file: file.setncattr("errorFunction", np.uint32(99)),
                "bad_activation.nc": lambda file: file.setncattr("layer1_activation", np.uint32(77)),
                "bad_scheme.nc": lambda file: file.setncattr("layer1_weightInit", np.uint32(55)),
                "text_number.nc": lambda file: file.setncattr("layer1_activation", "Relu"),
                "no_weights.nc": lambda file: file.renameVariable("weight0_weights", "weights"),
                "future.nc": lambda file: file.setncattr("norn_format", np.int32(99)),
                "bad_text.nc": lambda file: file.setncatts({"norn_format": np.int32(1), "norn_descriptor": "{}"})}.items():
            self.edit(name, change, "bare.nc")

    def write_data(self):
        rows = [[0, 1]] * len(self.known)
        sets = [("gl_input", self.width, rows, None), ("gl_output", self.width, rows, None)]
        write_datasets(self.path("plain.nc"), sets)
        write_datasets(self.path("short.nc"), [("other", self.width, rows[:3], None)])
        write_datasets(self.path("wider.nc"), [sets[0], ("gl_output", 99, rows, None)])
        write_datasets(self.path("same_names.nc"), [sets[0], sets[0]])
        write_datasets(self.path("beyond.nc"), [("gl_input", self.width, [[0, 40]] + rows[1:], None), sets[1]])
        write_datasets(self.path("not_finite.nc"), [("gl_input", self.width, rows, [[1.0, np.nan]] + [[1.0, 1.0]] * (len(rows) - 1)),
                                                    sets[1]])
        write_datasets(self.path("repeated_target.nc"), [sets[0], ("gl_output", self.width, [[3, 3]] + rows[1:], None)])
        write_datasets(self.path("missing.nc"), sets[:1])
        write_datasets(self.path("misaligned.nc"), [sets[0], ("gl_output", self.width, rows[1:], None)])

        write_datasets(self.path("nothing.nc"), [sets[0], ("gl_output", self.width, rows, [[0.0, 0.0]] * len(rows))])

        def put(name, value):
            return lambda file: file.setncattr(name, value)

        def cross(file):
            file["sparseStart0"][0] = 2
            file["sparseEnd0"][0] = 1

        def lengthen(file):
            file["sparseEnd0"][1] = 10**6

        def make_dense(file, number=1, value=1.0):
            file.setncattr(f"attributes{number}", np.uint32(0))
            file.setncattr(f"dataType{number}", np.uint32(4))
            file.createDimension(f"dataDim{number}", len(rows) * self.width)
            file.createVariable(f"data{number}", "f4", (f"dataDim{number}",))[:] = value

        for name, change in {
                "no_sets.nc": lambda file: file.delncattr("datasets"), "no_width.nc": put("width0", np.uint32(0)),
                "unknown_bits.nc": put("attributes0", np.uint32(1027)), "numbered_name.nc": put("name0", np.uint32(3)),
                "crossed.nc": cross, "too_long.nc": lengthen, "text_width.nc": put("width0", "wide"),
                "not_indexed.nc": put("width0", np.float32(1.5)), "too_wide.nc": put("width0", np.uint64(2**33)),
                "dense.nc": make_dense, "dense_input.nc": lambda file: make_dense(file, 0, np.nan)}.items():
            self.edit(name, change, "plain.nc")

    def expect(self, cases):
        for program, arguments, code, message in cases:
            with self.subTest(program=program, arguments=arguments):
                done = self.run_program(program, *arguments)
                errors = [line for line in done.stderr.splitlines() if ": error: " in line]
                self.assertEqual((done.returncode, errors), (code, [f"{program}: error: {message}"]))

    def test_importing(self):
        self.expect(IMPORTING)

    def test_training(self):
        self.expect(TRAINING)

    def test_predicting(self):
        self.expect(PREDICTING)

    def test_evaluating(self):
        self.expect(EVALUATING)

    def test_data_files(self):
        self.expect(DATA_FILES)


if __name__ == "__main__":
    unittest.main()
