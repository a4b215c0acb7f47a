"""Data-parallel training: a classifier of handwritten digits, whose gradients are added up over all ranks.

    pycoll run -n 4 docs/examples/digits.py [--epochs N] [--output PICTURE]

Each rank works on its share of every batch. One allreduce a step, in place, adds gradients and loss; so all ranks make
the same step and their weights stay equal. At the end rank 0 trains once more alone, adding the same shares' gradients
in the order of ranks: the weights must be the same, bit for bit with COLL_DETERMINISTIC=1. The data are the 1797 images
of 8x8 pixels that scikit-learn carries.
"""

import argparse
import time

import numpy as np

import pycoll

PIXELS, HIDDEN, CLASSES = 64, 64, 10
BATCH, RATE, MOMENTUM = 144, 0.2, 0.9
TRAINING = 1440  # the other 357 images are for the test


class Network:
    """64 pixels, one hidden layer, 10 classes. Weights and gradient are one vector each; layers are views into it."""

    LAYERS = ((PIXELS, HIDDEN), (1, HIDDEN), (HIDDEN, CLASSES), (1, CLASSES))
    COUNT = sum(rows * columns for rows, columns in LAYERS)

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        self.weights = random.normal(0.0, 0.1, self.COUNT)
        self.velocity = np.zeros(self.COUNT)

    def layers(self, vector: np.ndarray) -> list[np.ndarray]:
        ends = np.cumsum([rows * columns for rows, columns in self.LAYERS])
        return [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), self.LAYERS, strict=True)]

    def forward(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The hidden layer, and the probability of each class."""
        first, first_bias, second, second_bias = self.layers(self.weights)
        hidden = np.tanh(images @ first + first_bias)
        scores = hidden @ second + second_bias
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return hidden, scores / scores.sum(axis=1, keepdims=True)

    def gradient(self, images: np.ndarray, labels: np.ndarray, out: np.ndarray) -> None:
        """Writes the gradient of the cross entropy, summed over the images, and behind it that sum itself, to `out`."""
        hidden, error = self.forward(images)
        rows = np.arange(len(labels))
        out[-1] = -np.log(error[rows, labels]).sum()
        error[rows, labels] -= 1.0
        second = self.layers(self.weights)[2]
        inner = (error @ second.T) * (1.0 - hidden**2)
        parts = self.layers(out[:-1])
        parts[0][:], parts[1][:] = images.T @ inner, inner.sum(axis=0)
        parts[2][:], parts[3][:] = hidden.T @ error, error.sum(axis=0)

    def step(self, gradient: np.ndarray) -> None:
        self.velocity *= MOMENTUM
        self.velocity -= RATE / BATCH * gradient
        self.weights += self.velocity

    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        return float((self.forward(images)[1].argmax(axis=1) == labels).mean())


def load(comm: pycoll.Communicator) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels, shuffled: rank 0 reads them, the others get them from it."""
    images, labels = np.empty((1797, PIXELS)), np.empty(1797, dtype=np.int64)
    if comm.rank == 0:
        from sklearn.datasets import load_digits

        digits = load_digits()
        order = np.random.default_rng(0).permutation(len(labels))
        images[:], labels[:] = digits.data[order] / 16.0, digits.target[order]
    comm.broadcast(images)
    comm.broadcast(labels)
    return images, labels


def batches(epochs: int) -> list[np.ndarray]:
    """The images of each step: the same on every rank."""
    random = np.random.default_rng(2)
    return [batch for _ in range(epochs) for batch in random.permutation(TRAINING).reshape(-1, BATCH)]


def train_together(
    comm: pycoll.Communicator, network: Network, steps: list[np.ndarray], images: np.ndarray, labels: np.ndarray
) -> tuple[list[float], float]:
    """Returns the loss of each step, and the share of the time that went into communication."""
    gradient = pycoll.empty(network.COUNT + 1)  # where the other ranks of this machine reach it without a copy
    losses, communicating = [], 0.0
    comm.barrier()
    begin = time.perf_counter()
    for batch in steps:
        mine = np.array_split(batch, comm.size)[comm.rank]
        network.gradient(images[mine], labels[mine], gradient)
        computed = time.perf_counter()
        comm.allreduce(gradient, out=gradient)
        communicating += time.perf_counter() - computed
        network.step(gradient[:-1])
        losses.append(gradient[-1] / BATCH)
    share = communicating / (time.perf_counter() - begin)
    return losses, float(comm.allreduce(np.array([share]), op="avg")[0])


def train_alone(size: int, network: Network, steps: list[np.ndarray], images: np.ndarray, labels: np.ndarray) -> None:
    """The same training in one process, which adds what `size` ranks would have computed."""
    gradient, share = np.empty(network.COUNT + 1), np.empty(network.COUNT + 1)
    for batch in steps:
        for rank, mine in enumerate(np.array_split(batch, size)):
            network.gradient(images[mine], labels[mine], share if rank else gradient)
            if rank:
                gradient += share
        network.step(gradient[:-1])


def draw(losses: list[float], epochs: int, accuracy: float, path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot()
    axes.semilogy(np.linspace(0, epochs, len(losses)), losses, linewidth=0.8)
    axes.set(xlabel="epoch", ylabel="cross entropy", title=f"handwritten digits: test accuracy {accuracy:.1%}")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a classifier of handwritten digits on all ranks.")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--output", default="digits_loss.png", help="where to save the picture of the loss")
    options = parser.parse_args()

    comm = pycoll.init()
    images, labels = load(comm)
    steps = batches(options.epochs)
    network = Network()
    losses, share = train_together(comm, network, steps, images, labels)

    everyone = comm.allgather(network.weights)
    assert (everyone == everyone[0]).all(), "the ranks' weights differ"
    if comm.rank != 0:
        return
    accuracy = network.accuracy(images[TRAINING:], labels[TRAINING:])
    print(f"{comm.size} ranks, {len(steps)} steps, last loss {losses[-1]:.5f}")
    print(f"test accuracy: {accuracy:.4f}")
    print(f"time spent communicating: {share:.1%} (waiting for slower ranks included)")

    alone = Network()
    train_alone(comm.size, alone, steps, images, labels)
    if np.array_equal(network.weights, alone.weights):
        print("weights: equal to those of one process, bit for bit")
    else:
        assert pycoll.config()["COLL_DETERMINISTIC"]["value"] != "1", "COLL_DETERMINISTIC=1 must give the same bits"
        np.testing.assert_allclose(network.weights, alone.weights, rtol=1e-6, atol=1e-9)
        print(f"weights: equal to those of one process within {abs(network.weights - alone.weights).max():.1e}")

    draw(losses, options.epochs, accuracy, options.output)
    print(f"picture of the loss: {options.output}")
    if accuracy < 0.95:
        raise SystemExit("the accuracy is below 0.95")


if __name__ == "__main__":
    main()
