#!/usr/bin/env python3
"""PyTorch's step times of what bench/cuda measures, on the same GPU: medians, random inputs.

    tests/bench/pytorch.py [resnet50 | toy | mlp]...   prints `name batch precision way milliseconds`

Ways: eager; compile (torch.compile); captured (the eager step in a CUDA graph); bf16 by autocast with
fp32 master weights, and as pure bf16 ("pure"). A step is forward, loss, backward and SGD with momentum.
"""
import statistics
import sys
import warnings

import torch
import torch.nn as nn

warnings.filterwarnings("ignore")
STEPS, WARM = 30, 10


def median(step, count=STEPS):
    for _ in range(WARM):
        step()
    times = []
    for _ in range(count):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        torch.cuda.synchronize()
        begin.record()
        step()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def captured(step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def step_of(model, x, y, loss, autocast, lr):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4,
                                foreach=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            value = loss(model(x), y)
        value.backward()
        optimizer.step()

    return step


def report(name, batch, precision, way, make):
    try:
        print(f"{name} {batch} {precision} {way} {median(make()):.4f}", flush=True)
    except Exception as error:  # one way less is no reason to lose the others
        print(f"{name} {batch} {precision} {way} failed: {str(error).splitlines()[0]}", flush=True)
    torch.cuda.empty_cache()


class Block(nn.Module):
    """torchvision's bottleneck, so that the peer needs torch alone."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = width * 4
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Block(inputs, width, stride if i == 0 else 1))
            inputs = width * 4
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def bench_resnet50():
    for batch in (32, 64, 128, 256):
        for precision in ("bf16", "pure"):
            pure = precision == "pure"

            def make(way):
                torch.manual_seed(0)
                model = resnet50().cuda().to(memory_format=torch.channels_last)
                x = torch.randn(batch, 3, 224, 224, device="cuda")
                x = x.to(memory_format=torch.channels_last)
                y = torch.randint(1000, (batch,), device="cuda")
                if pure:
                    model, x = model.bfloat16(), x.bfloat16()
                if way == "compile":
                    model = torch.compile(model)
                step = step_of(model, x, y, nn.CrossEntropyLoss(), not pure, 0.01)
                return captured(step) if way == "captured" else step

            for way in ("eager", "captured", "compile"):
                if way == "compile" and (pure or "compile" not in sys.argv):
                    continue
                report("resnet50", batch, precision, way, lambda: make(way))


def bench_toy():
    def make(way):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5)).cuda()
        x, y = torch.randn(20, 10, device="cuda"), torch.randn(20, 5, device="cuda")
        step = step_of(model, x, y, nn.MSELoss(), False, 0.1)
        return captured(step) if way == "captured" else step

    for way in ("eager", "captured"):
        report("toy", 20, "fp32", way, lambda: make(way))


def bench_mlp():
    for precision in ("bf16", "pure", "tf32", "fp32"):
        def make(way):
            torch.manual_seed(0)
            torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
            model = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 4096),
                                  nn.ReLU(), nn.Linear(4096, 10)).cuda()
            x = torch.randn(1000, 784, device="cuda")
            y = torch.randint(10, (1000,), device="cuda")
            if precision == "pure":
                model, x = model.bfloat16(), x.bfloat16()
            step = step_of(model, x, y, nn.CrossEntropyLoss(), precision == "bf16", 0.01)
            return captured(step) if way == "captured" else step

        for way in ("eager", "captured"):
            report("mlp", 1000, precision, way, lambda: make(way))


if __name__ == "__main__":
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = True
    benches = {"toy": bench_toy, "mlp": bench_mlp, "resnet50": bench_resnet50}
    names = [a for a in sys.argv[1:] if a in benches] or list(benches)
    print(f"# PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
          f"{torch.cuda.get_device_name()}")
    for name in names:
        benches[name]()
