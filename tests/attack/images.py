# SPDX-License-Identifier: Apache-2.0
"""Images of all kinds that the importer reads, spoilt by bytes, cut, or saying more than they hold, in folders with what is none: refused
by name, passed over, or read; and what is read has the pixels that were drawn."""
import os
import struct
import zlib

import netCDF4
import numpy as np

from cases import Finding
from image_files import PNG_BEGIN, idx, jpeg, png, png_chunk, png_header
from mutations import by_byte, by_word

OUTPUTS = ("out.nc", "out.train.nc", "out.test.nc")
NAMES = ("ü", "a b", "-o", "a\tb", "a\nb", "a\x1b[31m", 'a"b', "a,b", "ab" * 120, "\udcff")
SIZES = ("1x1", "7x5", "7x5x1", "40x33x3", "65535x1", "2000x2000x3", "0x3", "65536x65536", "x", "3x3x2")


class Drawn:
    """Files of one case: `files` by path, and the pixels [channels x height x width] of images that are whole, by their examples' names."""

    def __init__(self, random):
        self.random = random
        self.numbers = np.random.default_rng(random.getrandbits(64))
        self.files, self.pixels = {}, {}
        self.width, self.height, self.channels = random.randint(1, 40), random.randint(1, 40), random.choice((1, 3))
        self.input = "in"

    def image(self):
        """A file's bytes and pixels; of a whole size where that is asked of all."""
        if self.tiles:
            tiles = self.numbers.integers(0, 256, (self.height // 8, self.width // 8))
            return jpeg(tiles), np.kron(tiles, np.ones((8, 8), dtype=int))[None]
        shape = (self.height, self.width) if self.channels == 1 else (self.height, self.width, 3)
        pixels = self.numbers.integers(0, 256, shape, dtype=np.uint8)
        between = png_chunk(b"gAMA", struct.pack(">I", 45455)) if self.random.random() < 0.2 else b""
        return png(pixels, between), pixels[None] if self.channels == 1 else pixels.transpose(2, 0, 1)

    def draw_files(self, listed):
        self.tiles = self.random.random() < 0.4
        if self.tiles:
            self.width, self.height, self.channels = 8 * self.random.randint(1, 4), 8 * self.random.randint(1, 4), 1
        classes = self.random.sample(("a", "b", "10", "9"), self.random.randint(1, 3))
        lines = []
        for number in range(self.random.randint(1, 9)):
            name = f"{self.random.choice(classes)}/{number}.png"
            self.files[f"in/{name}"], self.pixels[name] = self.image()
            lines.append(f"{name},{name.split('/')[0]}\n")
        if listed:
            self.input = "in/list.csv"
            self.files[self.input] = "".join(lines).encode()

    def draw_idx(self):
        self.channels, self.input = 1, "in/x-images-idx3-ubyte"
        pixels = self.numbers.integers(0, 256, (self.random.randint(1, 9), self.height, self.width), dtype=np.uint8)
        self.files = {self.input: idx(pixels), "in/x-labels-idx1-ubyte": idx(self.numbers.integers(0, 5, len(pixels)))}
        self.pixels = {str(number): image[None] for number, image in enumerate(pixels)}
        if self.random.random() < 0.3:
            self.input = "in"

    def draw_cifar(self):
        self.width = self.height = 32
        self.channels, labels = 3, self.random.choice((1, 2))
        pixels = self.numbers.integers(0, 256, (self.random.randint(1, 5), 3, 32, 32), dtype=np.uint8)
        records = b"".join(bytes((number % 10,) * labels) + image.tobytes() for number, image in enumerate(pixels))
        self.files = {"in/data.bin": records}
        if labels == 1 and self.random.random() < 0.5:
            self.files["in/batches.meta.txt"] = "".join(f"name {i}\n" for i in range(10)).encode()
        self.pixels = {str(number): image for number, image in enumerate(pixels)}

    def spoil(self):
        """Another file in place of one of them, and a word on it."""
        name, data = self.random.choice([(name, data) for name, data in self.files.items() if data] or [("in/more.png", b"x")])
        is_image = name.endswith(".png")
        if is_image and self.random.random() < 0.4:
            how, made = self.random.choice(list(self.hostile().items()))
        elif name.endswith((".csv", ".txt")):
            made, how = by_word(self.random, data)
        else:
            made, how = by_byte(self.random, data)
        self.files[name] = made
        if is_image:
            self.pixels.pop(name.removeprefix("in/"), None)
        else:
            self.pixels = {}  # of records and lists nothing is known that the file does not say
        return f"{name}: {how}"

    def hostile(self):
        """Files that say more than they hold, hold more than they say, or are hard on who reads them."""
        zeros = zlib.compress(bytes(1 << 22), 9)
        image, _ = self.image()
        frame = image.find(b"\xff\xc0")
        wide = image[:frame + 5] + b"\xff\xff\xff\xff" + image[frame + 9:] if frame > 0 else image
        scan = image.find(b"\xff\xda")
        return {
            "a header of 60,000 x 60,000": png_header(60000, 60000) + png_chunk(b"IDAT", zeros) + png_chunk(b"IEND", b""),
            "8,000 x 8,000 packed": png_header(8000, 8000, 1, 0) + png_chunk(b"IDAT", zlib.compress(bytes(8000 * 1001), 9)) +
            png_chunk(b"IEND", b""),
            "a text that unpacks to much": png(np.zeros((3, 3, 3), np.uint8), png_chunk(b"zTXt", b"x\0\0" + zeros) * 30),
            "a profile that unpacks to much": png(np.zeros((3, 3, 3), np.uint8), png_chunk(b"iCCP", b"x\0\0" + zeros)),
            "a palette of 257 colours": png_header(3, 3, 8, 3) + png_chunk(b"PLTE", bytes(771)) + png_chunk(b"IDAT", zeros[:90]),
            "a chunk of 4 GiB": PNG_BEGIN + b"\xff\xff\xff\xffIHDR",
            "a kind that there is not": png_header(3, 3, 5, 6) + png_chunk(b"IDAT", zeros),
            "a frame of 65,535 x 65,535": wide,
            "a thousand scans": image[:scan] + image[scan:-2] * 1000 + image[-2:] if scan > 0 else image * 2,
            "a JPEG of its mark alone": b"\xff\xd8\xff",
        }


def put_others(case, base):
    """What stands in folders besides images."""
    how = case.random.choice(("name", "folder", "pipe", "circle", "large", "device", "hidden", "class"))
    target = base / (case.random.choice(NAMES) + ".png" if how == "name" else "other")
    if how == "name":
        target.write_bytes(png(np.zeros((2, 2), np.uint8)))
    elif how == "folder":
        (target / "deeper").mkdir(parents=True)
    elif how == "pipe":
        os.mkfifo(target)
    elif how == "circle":
        target.symlink_to("other")
    elif how == "large":
        with open(target, "wb") as file:
            file.truncate(5 << 30)
    elif how == "device":
        target.symlink_to("/dev/zero")
    elif how == "hidden":
        (base / ".other").write_bytes(b"x")
    else:
        (base.parent / case.random.choice(NAMES)).mkdir(exist_ok=True)
    return how


def check_pixels(case, drawn):
    """Images that were not spoilt are what was drawn."""
    for output in OUTPUTS:
        if not case.path(output).exists():
            continue
        with netCDF4.Dataset(case.path(output)) as file:
            units = np.asarray(file["data0"][:])
            ends, labels = np.asarray(file["exampleLabelEnd0"][:]).tolist(), file["exampleLabels0"][:].tobytes()
            names = [labels[begin:end].decode(errors="surrogateescape") for begin, end in zip([0, *ends], ends)]
            extent = [int(getattr(file, name)) for name in ("width0", "height0", "length0")[:int(file.dimensions0)]]
            classes = np.asarray(file["data1"][:])
            width = int(file.width1)
        if len(names) != len(classes) or units.size != len(names) * np.prod(extent) or classes.max() >= width:
            raise Finding(f"{output}: {len(names)} names, {len(classes)} classes below {width}, {units.size} units of {extent}")
        for name, row in zip(names, units.reshape(len(names), -1)):
            if name in drawn.pixels and not np.array_equal(row, drawn.pixels[name].ravel()):
                raise Finding(f"{output}: {name} has other pixels than were drawn")


def attack(case, _):
    drawn = Drawn(case.random)
    {"folders": lambda: drawn.draw_files(False), "list": lambda: drawn.draw_files(True), "idx": drawn.draw_idx,
     "cifar": drawn.draw_cifar}[case.random.choice(("folders", "folders", "list", "idx", "cifar"))]()
    spoilt = case.random.random() < 0.85
    for _ in range(case.random.choice((1, 1, 2)) if spoilt else 0):
        case.note(drawn.spoil())
    for name, data in drawn.files.items():
        case.path(name).parent.mkdir(parents=True, exist_ok=True)
        case.path(name).write_bytes(data)
    others = drawn.input == "in" and case.random.random() < 0.3
    if others:
        case.note("beside: " + put_others(case, case.random.choice(sorted({case.path(name).parent for name in drawn.files}))))
    command = ["--input", drawn.input, "--format", "images", "--output", "out.nc", "--quiet"]
    sized = case.random.random() < 0.3
    if sized:
        command += ["--size", case.random.choice(SIZES)]
    if case.random.random() < 0.4:
        command += ["--skip-malformed", case.random.choice(("1", "3", "99"))]
    split = case.random.random() < 0.2
    if split:
        command += ["--split", "ratio:0.6/0.4"]
    done = case.run("importer", *command)
    if done.code != 0 and any(case.path(output).exists() for output in OUTPUTS):
        raise Finding(f"failed, and left an output: {done}")
    if done.code != 0 and not (spoilt or others or sized or split):
        raise Finding(f"should succeed: {done}")
    if done.code == 0 and not sized:
        check_pixels(case, drawn)
