# SPDX-License-Identifier: Apache-2.0
"""Writes random networks (random_networks.py) as other programs would: Keras' and Caffe's files by hand."""
import io
import json
import zipfile

import numpy as np

from random_networks import listed

CAFFE_WORDS = {"Sigmoid": "Sigmoid", "Tanh": "TanH", "Relu": "ReLU", "LRelu": "ReLU", "ELU": "ELU", "SoftMax": "Softmax"}
KERAS_WORDS = {"Sigmoid": "sigmoid", "Tanh": "tanh", "Relu": "relu", "SELU": "selu", "SoftPlus": "softplus", "SoftSign": "softsign",
               "GELU": "gelu", "Swish": "silu", "SoftMax": "softmax", "Linear": "linear"}


def leading_to_outputs(net):
    """Layers that take part, sources first."""
    used = {layer["Name"] for layer in net.layers if layer["Kind"] == "Output"}
    for layer in reversed(net.layers):
        if layer["Name"] in used:
            used |= {*listed(layer.get("Source")), *listed(layer.get("Skip"))}
    return [layer for layer in net.layers if layer["Name"] in used]


def keras_file(net, path, named=True):
    """As Keras 3 writes a Functional model: a Dense for each matrix, what they give added up, normalised, activated. `named`: groups say
    the names of their layers, as newer versions do."""
    layers, groups = [], {}
    has_both = {"scale": True, "center": True} if named else {}  # which they are where nothing is said

    def layer(kind, name, sources, config, arrays=()):
        inbound = [{"class_name": "__keras_tensor__", "config": {"shape": [None, 1], "dtype": "float32", "keras_history": [s, 0, 0]}}
                   for s in sources]
        args = [inbound] if kind in ("Add", "Concatenate") else inbound
        layers.append({"class_name": kind, "module": "keras.layers", "registered_name": None, "name": name,
                       "config": {"name": name, **config}, "inbound_nodes": [{"args": args, "kwargs": {}}] if sources else []})
        groups[name] = (kind, arrays)
        return name

    p = net.parameters
    for one in leading_to_outputs(net):
        name, units = one["Name"], one["N"]
        if one["Kind"] == "Input":
            layer("InputLayer", name, [], {"batch_shape": [None, units]})
            continue
        terms = []
        for number, source in enumerate(listed(one["Source"])):
            arrays = [p[f"{source} -> {name}"]] + ([p[f"{name} bias"]] if number == 0 else [])
            terms.append(layer("Dense", f"{name}_{number}", [source], {"units": units, "use_bias": number == 0, "activation": "linear"},
                               arrays))
        terms += listed(one.get("Skip"))
        z = layer("Add", f"{name}_add", terms, {}) if len(terms) > 1 else terms[0]
        z = layer("Dropout", f"{name}_dropout", [z], {"rate": 0.5})
        if one.get("BatchNormalization"):
            arrays = [p[f"{name} {item}BN"] for item in ("scale", "bias", "runningMean", "runningVariance")]
            z = layer("BatchNormalization", f"{name}_norm", [z], {"axis": -1, "epsilon": 1e-5, **has_both}, arrays)
        word = one["Activation"]
        if word == "LRelu":
            layer("LeakyReLU", name, [z], {"negative_slope": one.get("RELUSlope", 0.01)})
        elif word == "ELU":
            layer("ELU", name, [z], {"alpha": one["ELUAlpha"]} if "ELUAlpha" in one else {})
        else:
            layer("Activation", name, [z], {"activation": KERAS_WORDS[word]})
    ends = [[one["Name"], 0, 0] for one in net.layers if one["Kind"] == "Output"]
    config = {"class_name": "Functional", "config": {"name": "random", "layers": layers,
                                                     "output_layers": ends if len(ends) > 1 else ends[0]}}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("model.weights.h5", keras_weights(groups, named))
    return path


def keras_weights(groups, named):
    import h5py
    content, seen = io.BytesIO(), {}
    with h5py.File(content, "w") as file:
        for name, (kind, arrays) in groups.items():
            stem = {"InputLayer": "input_layer", "BatchNormalization": "batch_normalization", "LeakyReLU": "leaky_re_lu"}.get(kind,
                                                                                                                              kind.lower())
            number = seen[stem] = seen.get(stem, -1) + 1
            variables = file.create_group(f"layers/{stem}{f'_{number}' if number else ''}/vars")
            if named:
                variables.attrs["name"] = name
            for i, array in enumerate(arrays):
                variables.create_dataset(str(i), data=array)
    return content.getvalue()


def caffe_files(net, prototxt, caffemodel, old=False, training=False):
    """A network's text and weights. `old`: as before 2014. `training`: with data, a loss for the only output and an accuracy."""
    from norn.interchange import caffe_schema
    classes = caffe_schema.messages()
    old_words = {"InnerProduct": "INNER_PRODUCT", "ReLU": "RELU", "Sigmoid": "SIGMOID", "TanH": "TANH", "Softmax": "SOFTMAX",
                 "Dropout": "DROPOUT", "Eltwise": "ELTWISE", "SoftmaxWithLoss": "SOFTMAX_LOSS", "ELU": "ELU"}
    text, weights, p = ["name: \"random\""], classes["Net"](name="random"), net.parameters
    ends = {one["Name"] for one in net.layers if one["Kind"] == "Output"}

    def layer(kind, name, bottoms, top, settings="", arrays=()):
        word = old_words[kind] if old else f"\"{kind}\""
        text.append(f"{'layers' if old else 'layer'} {{ name: \"{name}\" type: {word} "
                    + "".join(f"bottom: \"{bottom}\" " for bottom in bottoms) + f"top: \"{top}\" {settings} }}")
        entry = (weights.layers if old else weights.layer).add(name=name)
        for array in arrays:
            blob = entry.blobs.add(data=array.ravel().tolist())
            if old:
                extent = (1,) * (4 - array.ndim) + array.shape
                blob.num, blob.channels, blob.height, blob.width = extent
            else:
                blob.shape.dim.extend(array.shape)
        return top

    for one in leading_to_outputs(net):
        name, units = one["Name"], one["N"]
        if one["Kind"] == "Input":
            if training:
                text.append(f"layer {{ name: \"data\" type: \"Data\" top: \"{name}\" top: \"label\" include {{ phase: TRAIN }} }}")
                text.append(f"layer {{ name: \"data\" type: \"Data\" top: \"{name}\" top: \"label\" include {{ phase: TEST }} }}")
            elif old:
                text.append(f"input: \"{name}\" input_dim: 1 input_dim: {units} input_dim: 1 input_dim: 1")
            else:
                text.append(f"layer {{ name: \"{name}\" type: \"Input\" top: \"{name}\" "
                            f"input_param {{ shape {{ dim: 1 dim: {units} }} }} }}")
            continue
        terms = []
        for number, source in enumerate(listed(one["Source"])):
            arrays = [np.ascontiguousarray(p[f"{source} -> {name}"].T)] + ([p[f"{name} bias"]] if number == 0 else [])
            settings = f"inner_product_param {{ num_output: {units} {'' if number == 0 else 'bias_term: false'} " \
                       "weight_filler { type: \"xavier\" } }"
            terms.append(layer("InnerProduct", f"{name}_{number}", [source], f"{name}_{number}", settings, arrays))
        terms += listed(one.get("Skip"))
        z = layer("Eltwise", f"{name}_add", terms, name, "eltwise_param { operation: SUM }") if len(terms) > 1 else terms[0]
        word = one["Activation"]
        if training and name in ends:
            text.append(f"layer {{ name: \"accuracy\" type: \"Accuracy\" bottom: \"{z}\" bottom: \"label\" top: \"accuracy\" "
                        "include { phase: TEST } }")
            text.append(f"layer {{ name: \"loss\" type: \"SoftmaxWithLoss\" bottom: \"{z}\" bottom: \"label\" top: \"loss\" }}")
            continue
        settings = {"LRelu": f"relu_param {{ negative_slope: {one.get('RELUSlope', 0.01)} }}",
                    "ELU": f"elu_param {{ alpha: {one.get('ELUAlpha', 1.0)} }}"}.get(word, "")
        layer(CAFFE_WORDS[word], f"{name}_act", [z], name, settings)
        if one["Kind"] == "Hidden":
            layer("Dropout", f"{name}_drop", [name], name)
    prototxt.write_text("\n".join(text))
    caffemodel.write_bytes(weights.SerializeToString())
    return prototxt, caffemodel
