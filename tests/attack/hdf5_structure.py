# SPDX-License-Identifier: Apache-2.0
"""HDF5 files that name other files, by every way that the format has, or whose groups have no end: what lies outside is never opened."""
import ctypes
import ctypes.util
import re
import shutil

from cases import Finding
from material import TRAIN

HDF5 = ctypes.CDLL(ctypes.util.find_library("hdf5_serial") or ctypes.util.find_library("hdf5"))
BAIT = "bait.secret"
ADDRESSES = 1 << 30  # bytes of each process; a whole file needs a third of it
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


def reseal(path):
    """Appends the seal anew, as anybody can who knows the format: no run of elements, and the CRC-32 of all bytes."""
    import zlib
    data = path.read_bytes() + bytes(8)
    path.write_bytes(data + zlib.crc32(data).to_bytes(4, "little") + b"NornSeal")


def attack(case, base):
    name, command = case.random.choice(READERS)
    case.bring(base, *{word for word in command if isinstance(word, str) and (base / word).is_file()}, name)
    bait = case.path(BAIT)
    shutil.copyfile(base / name, bait)
    names = names_of(case.path(name))
    done = change(case.random, case.path(name), str(bait).encode(), names)
    sealed = case.random.random() < 0.3
    if sealed:
        reseal(case.path(name))
    case.note(f"{name}: {done}{', sealed' * sealed}")
    ended = case.run(command[0], *command[1:], traced=case.path("calls"), addresses=ADDRESSES)
    opened = [line for line in case.path("calls").read_text(errors="replace").splitlines() if re.search(r"open.*" + re.escape(BAIT), line)]
    if opened:
        raise Finding(f"opens another file: {opened[:3]}: {ended}")
    if set(done) & set(LEADS_OUT) and ended.code != 3:
        raise Finding(f"takes a file that leads elsewhere: {ended}")
    if ended.code == 4:
        raise Finding(f"needs more than {ADDRESSES >> 20} MiB: {ended}")
