"""Makes models/<name>.safetensors and models/<name>.json: what PyTorch computes in ten steps.

Usage: /usr/bin/python3 tests/golden/make_golden.py      (Debian's python3-torch; nothing else)

Each model is trained from the same fp32 values on ten different batches, once for every optimizer
in OPTIMIZERS, in fp32 and in fp64. The safetensors file holds the initial state_dict and the batches
(input.0, target.0, ...). The JSON file holds, per optimizer, the losses in both precisions and their
distance, and for each parameter and buffer after training the sum and the norm (of the fp64 run) and
the largest distance between the two runs, relative to the largest fp64 value of that tensor.
"""
import copy
import json
import os
import struct
import torch
from torch import nn

STEPS = 10
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
OPTIMIZERS = [
    {"name": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 0.0},
    {"name": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4},
    {"name": "adamw", "lr": 0.01, "weight_decay": 0.01},
]


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(torch.relu(self.net1(x)))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 32)
        self.fc2 = nn.Linear(32, 32)
        self.fc3 = nn.Linear(32, 10)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + (self.downsample(x) if self.downsample else x))


class SmallResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.layer1 = nn.Sequential(BasicBlock(8, 8, 1))
        self.layer2 = nn.Sequential(BasicBlock(8, 16, 2))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class EmbeddingLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1000, 10)
        self.linear = nn.Linear(10, 10)

    def forward(self, index):
        return self.linear(self.embedding(index))


def classes(batch):
    return torch.randint(0, 10, (batch,))


MODELS = {  # name: (model, loss, batch size, one batch of inputs, one of targets)
    "toy": (Toy, "mse", 20, lambda n: torch.randn(n, 10), lambda n: torch.randn(n, 5)),
    "mlp": (Mlp, "cross_entropy", 24, lambda n: torch.randn(n, 16), classes),
    "small-resnet": (SmallResNet, "cross_entropy", 8, lambda n: torch.randn(n, 3, 12, 12),
                     classes),
    # 16 draws out of 40 rows: some indices come twice in a batch, many in several batches
    "embedding-linear": (EmbeddingLinear, "mse", 16, lambda n: torch.randint(0, 40, (n,)) * 25,
                         lambda n: torch.randn(n, 10)),
}
LOSSES = {"mse": nn.functional.mse_loss, "cross_entropy": nn.functional.cross_entropy}


def write_safetensors(path, tensors):
    """8-byte header length, JSON header, data; int64 first, so that all is aligned."""
    header, blobs, offset = {}, [], 0
    for name in sorted(tensors, key=lambda n: (tensors[n].dtype != torch.int64, n)):
        tensor = tensors[name].contiguous()
        kind = {torch.int64: "I64", torch.float32: "F32"}[tensor.dtype]
        blobs.append(bytes(tensor.numpy().tobytes()))
        end = offset + len(blobs[-1])
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def make_optimizer(options, model):
    options = dict(options)
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[options.pop("name")]
    return kind(model.parameters(), **options)


def train(model, loss_name, options, batches, dtype):
    """Ten steps of a copy of the model; gives the losses and the trained copy."""
    model = copy.deepcopy(model).to(dtype)
    optimizer = make_optimizer(options, model)
    losses = []
    for x, target in batches:
        x, target = (t.to(dtype) if t.is_floating_point() else t for t in (x, target))
        optimizer.zero_grad()
        loss = LOSSES[loss_name](model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model


def summarize(single, double):
    result = {}
    for (name, a), (_, b) in zip(single, double):
        a, b = a.detach().double(), b.detach().double()
        result[name] = {"sum": b.sum().item(), "norm": b.norm().item(),
                        "relative_distance": ((a - b).abs().max() / b.abs().max()).item()}
    return result


def run_case(model, loss_name, options, batches):
    losses32, single = train(model, loss_name, options, batches, torch.float32)
    losses64, double = train(model, loss_name, options, batches, torch.float64)
    return {
        "optimizer": options,
        "losses_fp32": losses32,
        "losses_fp64": losses64,
        "losses_distance": [abs(a - b) for a, b in zip(losses32, losses64)],
        "parameters": summarize(single.named_parameters(), double.named_parameters()),
        "buffers": summarize(single.named_buffers(), double.named_buffers()),
    }


def number(value):
    """All floats with 17 digits, so that nothing is lost."""
    if isinstance(value, float):
        return float("%.17g" % value)
    if isinstance(value, dict):
        return {key: number(item) for key, item in value.items()}
    return [number(item) for item in value] if isinstance(value, list) else value


def make(name):
    kind, loss_name, batch, make_input, make_target = MODELS[name]
    torch.manual_seed(sorted(MODELS).index(name) + 1)
    model = kind()
    batches = [(make_input(batch), make_target(batch)) for _ in range(STEPS)]
    tensors = dict(model.state_dict())
    for i, (x, target) in enumerate(batches):
        tensors["input.%d" % i], tensors["target.%d" % i] = x, target
    write_safetensors(os.path.join(FOLDER, name + ".safetensors"), tensors)
    golden = {
        "model": name,
        "made_by": "PyTorch " + torch.__version__ + " on a CPU, one thread",
        "regenerate": "/usr/bin/python3 tests/golden/make_golden.py",
        "loss": loss_name,
        "batch": batch,
        "steps": STEPS,
        "cases": [run_case(model, loss_name, options, batches) for options in OPTIMIZERS],
    }
    with open(os.path.join(FOLDER, name + ".json"), "w") as file:
        file.write(json.dumps(number(golden), indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    os.makedirs(FOLDER, exist_ok=True)
    for model_name in MODELS:
        make(model_name)
