# SPDX-License-Identifier: Apache-2.0
"""The messages of Caffe's files, as far as they are read: names, numbers and types of fields, for protobuf. Other fields are passed
over."""
from __future__ import annotations

from typing import Any

PACKAGE = "norn_caffe"
# message: {field: (number, type, or the message that it is)}; "repeated" and "packed" stand before the type.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "BlobShape": {"dim": (1, "packed int64")},
    "Blob": {"num": (1, "int32"), "channels": (2, "int32"), "height": (3, "int32"), "width": (4, "int32"), "data": (5, "packed float"),
             "shape": (7, "BlobShape"), "double_data": (8, "packed double")},
    "StateRule": {"phase": (1, "Phase")},
    "InnerProduct": {"num_output": (1, "uint32"), "bias_term": (2, "bool"), "axis": (5, "int32"), "transpose": (6, "bool")},
    "Convolution": {"num_output": (1, "uint32"), "bias_term": (2, "bool"), "pad": (3, "repeated uint32"),
                    "kernel_size": (4, "repeated uint32"), "group": (5, "uint32"), "stride": (6, "repeated uint32"), "pad_h": (9, "uint32"),
                    "pad_w": (10, "uint32"), "kernel_h": (11, "uint32"), "kernel_w": (12, "uint32"), "stride_h": (13, "uint32"),
                    "stride_w": (14, "uint32"), "axis": (16, "int32"), "dilation": (18, "repeated uint32")},
    "Pooling": {"pool": (1, "PoolMethod"), "kernel_size": (2, "uint32"), "stride": (3, "uint32"), "pad": (4, "uint32"),
                "kernel_h": (5, "uint32"), "kernel_w": (6, "uint32"), "stride_h": (7, "uint32"), "stride_w": (8, "uint32"),
                "pad_h": (9, "uint32"), "pad_w": (10, "uint32"), "global_pooling": (12, "bool"), "round_mode": (13, "RoundMode")},
    "Response": {"local_size": (1, "uint32"), "alpha": (2, "float"), "beta": (3, "float"), "norm_region": (4, "NormRegion"),
                 "k": (5, "float")},
    "Rectifier": {"negative_slope": (1, "float")},
    "Exponential": {"alpha": (1, "float")},
    "Eltwise": {"operation": (1, "EltwiseOp"), "coeff": (2, "repeated float")},
    "Concat": {"concat_dim": (1, "uint32"), "axis": (2, "int32")},
    "Softmax": {"axis": (2, "int32")},
    "Input": {"shape": (1, "repeated BlobShape")},
    "MemoryData": {"channels": (2, "uint32"), "height": (3, "uint32"), "width": (4, "uint32")},
    "Layer": {"name": (1, "string"), "type": (2, "string"), "bottom": (3, "repeated string"), "top": (4, "repeated string"),
              "blobs": (7, "repeated Blob"), "include": (8, "repeated StateRule"), "exclude": (9, "repeated StateRule"),
              "concat_param": (104, "Concat"), "convolution_param": (106, "Convolution"), "lrn_param": (118, "Response"),
              "pooling_param": (121, "Pooling"), "eltwise_param": (110, "Eltwise"),
              "inner_product_param": (117, "InnerProduct"),
              "memory_data_param": (119, "MemoryData"), "relu_param": (123, "Rectifier"), "softmax_param": (125, "Softmax"),
              "elu_param": (140, "Exponential"), "input_param": (143, "Input")},
    # Of files before 2014, with numbers for types.
    "OldLayer": {"bottom": (2, "repeated string"), "top": (3, "repeated string"), "name": (4, "string"), "type": (5, "OldType"),
                 "blobs": (6, "repeated Blob"), "concat_param": (9, "Concat"), "convolution_param": (10, "Convolution"),
                 "lrn_param": (18, "Response"), "pooling_param": (19, "Pooling"),
                 "inner_product_param": (17, "InnerProduct"),
                 "memory_data_param": (22, "MemoryData"), "eltwise_param": (24, "Eltwise"), "relu_param": (30, "Rectifier"),
                 "include": (32, "repeated StateRule"), "exclude": (33, "repeated StateRule"), "softmax_param": (39, "Softmax")},
    "Net": {"name": (1, "string"), "layers": (2, "repeated OldLayer"), "input": (3, "repeated string"), "input_dim": (4, "repeated int32"),
            "input_shape": (8, "repeated BlobShape"), "layer": (100, "repeated Layer")},
}
_ENUMS: dict[str, dict[str, int]] = {
    "Phase": {"TRAIN": 0, "TEST": 1},
    "PoolMethod": {"MAX": 0, "AVE": 1, "STOCHASTIC": 2},
    "RoundMode": {"CEIL": 0, "FLOOR": 1},
    "NormRegion": {"ACROSS_CHANNELS": 0, "WITHIN_CHANNEL": 1},
    "EltwiseOp": {"PROD": 0, "SUM": 1, "MAX": 2},
    "OldType": {"NONE": 0, "ACCURACY": 1, "BNLL": 2, "CONCAT": 3, "CONVOLUTION": 4, "DATA": 5, "DROPOUT": 6, "EUCLIDEAN_LOSS": 7,
                "FLATTEN": 8, "HDF5_DATA": 9, "HDF5_OUTPUT": 10, "IM2COL": 11, "IMAGE_DATA": 12, "INFOGAIN_LOSS": 13,
                "INNER_PRODUCT": 14, "LRN": 15, "MULTINOMIAL_LOGISTIC_LOSS": 16, "POOLING": 17, "RELU": 18, "SIGMOID": 19,
                "SOFTMAX": 20, "SOFTMAX_LOSS": 21, "SPLIT": 22, "TANH": 23, "WINDOW_DATA": 24, "ELTWISE": 25, "POWER": 26,
                "SIGMOID_CROSS_ENTROPY_LOSS": 27, "HINGE_LOSS": 28, "MEMORY_DATA": 29, "ARGMAX": 30, "THRESHOLD": 31, "DUMMY_DATA": 32,
                "SLICE": 33, "MVN": 34, "ABSVAL": 35, "SILENCE": 36, "CONTRASTIVE_LOSS": 37, "EXP": 38, "DECONVOLUTION": 39},
}


def messages() -> dict[str, Any]:
    """The class of each message."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"{PACKAGE}.proto", package=PACKAGE, syntax="proto2")
    for name, values in _ENUMS.items():
        enum = file.message_type.add(name=f"Scope{name}").enum_type.add(name=name)  # words of one scope differ
        for word, number in values.items():
            enum.value.add(name=word, number=number)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for key, (number, what) in fields.items():
            repeated, _, kind = what.rpartition(" ")
            entry = message.field.add(name=key, number=number, label=field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL)
            entry.options.packed = repeated == "packed"
            if kind in _MESSAGES or kind in _ENUMS:
                entry.type = field.TYPE_MESSAGE if kind in _MESSAGES else field.TYPE_ENUM
                entry.type_name = f".{PACKAGE}.{kind}" if kind in _MESSAGES else f".{PACKAGE}.Scope{kind}.{kind}"
            else:
                entry.type = getattr(field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in _MESSAGES}
