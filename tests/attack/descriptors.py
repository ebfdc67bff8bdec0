# SPDX-License-Identifier: Apache-2.0
"""Descriptors that nobody would write, drawn from the schema and beyond it: planned, trained for an epoch, or refused."""
import json

from cases import SOURCE, Finding

SCHEMA = json.loads((SOURCE / "configs/schema/network.schema.json").read_text())
ODD = [None, True, "", "x", "auto", "\x1b[2J\n", "\u0000", "\ud800", [], {}, [[[]]], -1, 0, 0.5, 1e308, -1e308, 5e-324, 2**31, 2**32, 2**63,
       2**64, 10**400, float("nan"), float("inf")]
NAMES = ["A", "B", "C", "Input", "Output", "a", ""]
DATA = ["s_input", "s_output", "dense", "bytes", "valued", "classes", "none"]
SMALL = [1, 2, 3, 7, 32, 33]
LARGE = [1000, 2**31, 2**32 - 1]


def number(random, schema):
    low = schema.get("minimum", schema.get("exclusiveMinimum", -10))
    high = min(schema.get("maximum", schema.get("exclusiveMaximum", 10)), 1e9)
    choices = [low, high, low + (high - low) * random.random(), 1, 0]
    value = random.choice(choices)
    return int(value) if schema["type"] == "integer" else value


def drawn(random, schema, key=""):
    """A value that the schema allows, now and then one that it does not."""
    if random.random() < 0.01:
        return random.choice(ODD)
    if key == "DataSet":
        return random.choice(DATA)
    if key in ("Name", "InputLayer", "SourceInputLayer", "SourceOutputLayer"):
        return random.choice(NAMES)
    if key in ("Source", "Skip"):
        return random.choice((random.choice(NAMES), random.sample(NAMES, random.randint(1, 3))))
    if key == "N":
        return random.choice(("auto", random.choice(SMALL), random.choice(SMALL), [random.choice(SMALL)] * random.randint(1, 4),
                              random.choice(LARGE)))
    if key == "Epochs":
        return random.choice((0, 1, 2))
    if "anyOf" in schema:
        return drawn(random, random.choice(schema["anyOf"]), key)
    if "enum" in schema:
        return random.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    if kind == "object":
        return object_of(random, schema)
    if kind == "array":
        return [drawn(random, schema.get("items", {"type": "number"})) for _ in range(random.randint(0, 4))]
    if kind in ("number", "integer"):
        return number(random, schema)
    return random.choice((True, False)) if kind == "boolean" else random.choice(NAMES)


def object_of(random, schema, share=0.5):
    chosen = {key: drawn(random, value, key) for key, value in schema.get("properties", {}).items() if random.random() < share}
    return {random.choice((key, key, key, key.lower(), key.upper())): value for key, value in chosen.items()}


def plausible(random):
    """A network of layers with a few keys each, most of them right."""
    network = object_of(random, {"properties": {k: v for k, v in SCHEMA["properties"].items() if k != "Layers"}}, 0.15)
    layer = SCHEMA["definitions"]["layer"]
    names = random.sample(NAMES, len(NAMES)) + [f"L{i}" for i in range(20)]
    layers = []
    for i in range(random.choice((1, 2, 3, 3, 4, 6, 12))):
        one = object_of(random, layer, 0.08)
        one.update(Name=names[i], N=drawn(random, {}, "N") if random.random() < 0.2 else random.choice(SMALL))
        if i > 0 and random.random() < 0.5:
            one["Source"] = [other["Name"] for other in random.sample(layers, random.randint(1, len(layers)))]
        layers.append(one)
    layers[0].update(Kind="Input", DataSet="s_input", N="auto")
    layers[-1].update(Kind="Output", DataSet="s_output", N="auto")
    for one in (layers[0], layers[-1]):
        for key in random.sample(sorted(one), max(0, len(one) - 6)):
            one.pop(key)
    network["Layers"] = layers
    return network


def extreme(random):
    """Text that is hard on a reader, whatever it says."""
    deep = random.choice((100, 5000, 200000))
    return random.choice((
        lambda: "[" * deep, lambda: '{"Layers":' * deep, lambda: '{"Layers": [' + "[" * deep + "]" * deep + "]}",
        lambda: "/*" * deep, lambda: "//" + "x" * deep, lambda: '{"' + "k" * deep + '": 1}', lambda: '{"Name": "' + "\\u0000" * deep + '"}',
        lambda: '{"Decay": ' + "9" * deep + "}", lambda: '{"Decay": 1e' + "9" * 30 + "}", lambda: '{"Decay": -0e-' + "9" * deep + "}",
        lambda: "{" + ",".join(f'"k{i}": {i}' for i in range(deep // 10)) + "}", lambda: '{"Name": "\\ud800\\udc00\\ud800"}',
        lambda: json.dumps({"Layers": chain(random, min(deep, 2000))}), lambda: json.dumps({"Layers": circle(random)}),
        lambda: "\ufeff{}", lambda: "\0" * deep, lambda: " " * deep, lambda: '{"Layers": [' + "{}," * min(deep, 5000) + "]}"))()


def chain(random, length):
    """Narrow layers one after the other: planned in time that grows as their number."""
    middle = [{"Name": f"L{i}", "N": random.choice((1, 2)), "Activation": "Tanh"} for i in range(length)]
    return [{"Name": "I", "DataSet": "s_input", "N": "auto"}, *middle, {"Name": "O", "Kind": "Output", "DataSet": "s_output", "N": "auto"}]


def circle(random):
    count = random.randint(2, 30)
    layers = chain(random, count)
    for i in range(count):
        layers[i + 1]["Source"] = [f"L{(i + random.randint(1, count)) % count}", "I"]
    return layers


def attack(case, base):
    case.bring(base, "train.nc", "mixed.nc")
    draw = case.random.random()
    if draw < 0.55:
        text = json.dumps(plausible(case.random))
    elif draw < 0.8:
        text = json.dumps(object_of(case.random, SCHEMA))
    else:
        text = extreme(case.random)
    case.path("net.json").write_text(text, errors="surrogatepass")
    case.note(f"net.json: {text[:300]}")
    command = ["trainer", "-c", "net.json", "-i", "train.nc", "-i", "mixed.nc", "-n", "out.nc", "--threads", "1", "-b", "64"]
    if case.random.random() < 0.4:
        command.append("--errors=json")
    if "--errors=json" in command:
        check_json(case, command)
    elif case.run(*command, "--plan").code == 0 and "2147483648" not in text:
        trained = case.run(*command, "-e", "1")
        if trained.code == 0:
            data = ("--data", "train.nc", "--data", "mixed.nc")
            case.run("predictor", "-n", "out.nc", *data, "-s", "out.txt", "--threads", "1")


def check_json(case, command):
    """With --errors=json a failure is one document that a reader of JSON takes."""
    done = case.run(*command, "--plan", says_json=True)
    documents = [line for line in done.err.decode(errors="replace").splitlines() if line.startswith("{")]
    if done.code == 0:
        return
    try:
        [document] = documents
        if json.loads(document)["exit_code"] != done.code:
            raise ValueError("another exit code")
    except (ValueError, KeyError) as wrong:
        raise Finding(f"no document of errors: {wrong}: {done}") from None
