# SPDX-License-Identifier: Apache-2.0
"""Networks of images as other programs write them."""
import numpy as np

from norn.interchange import caffe_schema


def caffe_classifier(draw, folder, second="pad: 1 kernel_size: 3 group: 2", pool="pool: MAX kernel_size: 3 stride: 2", norm="", more=None):
    """As Caffe's AlexNet: two convolutions, the second in groups, LRN and pooling between them, and a layer behind; for images of 13 x 15
    (x, y) in 3 channels."""
    weights = caffe_schema.messages()["Net"](name="small")
    shapes = {"conv1": (4, 3, 3, 5), "conv2": (6, 2, 3, 3), "fc": (5, 6 * 3 * 2)}
    arrays = {name: [draw.normal(0, 0.5, shape).astype(np.float32), draw.normal(size=shape[0]).astype(np.float32)]
              for name, shape in shapes.items()}
    for name, both in arrays.items():
        entry = weights.layer.add(name=name)
        for array in both:
            entry.blobs.add(data=array.ravel().tolist()).shape.dim.extend(array.shape)
    text = f"""name: "small"
layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: 1 dim: 3 dim: 15 dim: 13 }} }} }}
layer {{ name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
         convolution_param {{ num_output: 4 kernel_h: 3 kernel_w: 5 stride_h: 2 stride_w: 2 }} }}
layer {{ name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }}
layer {{ name: "norm1" type: "LRN" bottom: "conv1" top: "norm1" lrn_param {{ local_size: 3 alpha: 0.5 {norm} }} }}
layer {{ name: "conv2" type: "Convolution" bottom: "norm1" top: "conv2" convolution_param {{ num_output: 6 {second} }} }}
layer {{ name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2" pooling_param {{ {pool} }} }}
layer {{ name: "fc" type: "InnerProduct" bottom: "pool2" top: "fc" inner_product_param {{ num_output: 5 }} }}"""
    if more:
        text += f'\nlayer {{ name: "norm2" type: "LRN" bottom: "conv2" top: "norm2" lrn_param {{ {more} }} }}'
    (folder / "small.prototxt").write_text(text)
    (folder / "small.caffemodel").write_bytes(weights.SerializeToString())
    return (folder / "small.prototxt", folder / "small.caffemodel"), arrays


class Block:
    """As PyTorch exports a block of a residual network over [batch, 2, 9, 12] (x is 12 wide): convolutions, each normalised; the shortcut's
    sum, Relu; a second branch with LRN and pooling; and pooling and a layer behind both."""

    def __init__(self, draw, **changed):
        import onnx
        from onnx import helper
        self.arrays, self.nodes = {}, []
        pool, mean = changed.pop("pool", {}), changed.pop("mean", {})
        self.shapes = {"a": (4, 2, 5, 3), "b": (6, 2, 3, 3), "short": (6, 2, 1, 1), "side": (3, 2, 3, 3), "join": (5, 9, 2, 3)}
        for name, shape in self.shapes.items():
            self.array(f"{name}.weight", draw.normal(0, 0.5, shape))
            self.array(f"{name}.bias", draw.normal(size=shape[0]))
            self.array(f"{name}.norm", np.concatenate([draw.uniform(0.5, 1.5, (2, shape[0])), draw.normal(size=(2, shape[0]))]))
        self.array("scale", draw.normal(size=changed.pop("scale", (6, 1, 1))))
        self.array("fc.weight", draw.normal(size=(3, 5 * 2 * 2)))
        self.array("fc.bias", draw.normal(size=3))
        a = self.node("Relu", self.conv("a", "x", pads=[2, 1, 2, 1]))
        b = self.conv("b", a, **({"pads": [1] * 4, "group": 2} | changed))
        both = self.node("Relu", self.node("Add", self.node("Mul", b, "scale"), self.conv("short", "x")))
        side = self.node("Tanh", self.conv("side", "x", auto_pad="SAME_UPPER"))
        side = self.node("LRN", side, size=3, alpha=0.3, beta=0.5, bias=2.0)
        joined = self.conv("join", self.node("Concat", both, side, axis=1), norm=False, strides=[2, 2])
        mean = self.node("AveragePool", joined, **({"kernel_shape": [3, 3], "pads": [1] * 4} | mean))
        pooled = self.node("MaxPool", mean, **({"kernel_shape": [2, 2], "strides": [2, 2]} | pool))
        self.node("Gemm", self.node("Flatten", pooled), "fc.weight", "fc.bias", result="y", transB=1)
        info = lambda name, extent: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, extent)
        graph = helper.make_graph(self.nodes, "block", [info("x", ["batch", 2, 9, 12])], [info("y", ["batch", 3])],
                                  [onnx.numpy_helper.from_array(array, name) for name, array in self.arrays.items()])
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)

    def array(self, name, values):
        self.arrays[name] = np.asarray(values, np.float32)

    def node(self, operator, *inputs, result=None, **attributes):
        from onnx import helper
        result = result or f"{operator}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [result], name=result, **attributes))
        return result

    def conv(self, name, x, norm=True, **attributes):
        result = self.node("Conv", x, f"{name}.weight", f"{name}.bias", **attributes)
        variance, scale, bias, mean = self.arrays.pop(f"{name}.norm")
        if not norm:
            return result
        for word, values in (("scale", scale), ("shift", bias), ("mean", mean), ("variance", variance)):
            self.array(f"{name}.{word}", values)
        return self.node("BatchNormalization", result, *(f"{name}.{word}" for word in ("scale", "shift", "mean", "variance")), epsilon=1e-3)
