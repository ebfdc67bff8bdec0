# SPDX-License-Identifier: Apache-2.0
"""Users and items of any number with a planted truth, drawn exactly, and the ranking that no model can beat.

Items stand in clusters. A cluster c has a latent vector v_c, an item i a popularity w_i that follows a power law. User u takes item i
with a probability proportional to

    w_i exp(beta u . v_cluster(i))

without repeats, one item after the other. So the logarithm of the probabilities is of low rank, but for popularity. To draw an item is
to draw its cluster, by softmax over clusters, and then the item by popularity within it: nothing is left out of this truth, and no user
costs a number for every item. Where there are as many clusters as items each item has a vector of its own.

Needs NumPy. What is drawn depends on the settings alone, not on the number of threads."""
import concurrent.futures
import dataclasses
import os

import numpy as np

BATCH = 32  # users that are drawn at a time: their sums over clusters stay in a cache
SHIFT = 10.0  # popularity falls as (rank + SHIFT)^-exponent
CATALOGUE, TRAINED, HELD_OUT, INFERRED = range(4)  # what a stream of random numbers is for


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a catalogue and its users are made of."""
    items: int
    users: int  # to train on
    entries: int = 50  # items of each user
    held_out_users: int = 2000  # not trained on
    held_out_entries: int = 10  # of each of them, to be found
    clusters: int = 16384  # at most
    rank: int = 32  # of the latent vectors
    beta: float = 3.0  # how much taste counts: the standard deviation of the logarithm
    exponent: float = 1.0  # of popularity
    seed: int = 1


class Catalogue:
    """Items in the order of their clusters, in a cluster by falling popularity: `ids` [items] are their public numbers."""

    def __init__(self, settings):
        self.settings = settings
        clusters = min(settings.clusters, settings.items)
        rng = np.random.default_rng([settings.seed, CATALOGUE])
        self.vectors = rng.standard_normal((clusters, settings.rank), dtype=np.float32)  # [clusters x rank]
        own = clusters == settings.items
        of_rank = np.arange(clusters) if own else rng.integers(clusters, size=settings.items)
        of_rank = of_rank.astype(np.uint16 if clusters <= 65536 else np.uint32)
        order = np.argsort(of_rank, kind="stable")  # of ranks in popularity
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(of_rank, minlength=clusters))])  # [clusters + 1]
        del of_rank
        popularity = (order + SHIFT) ** -settings.exponent
        del order
        self.cumulative = np.concatenate([[0.0], np.cumsum(popularity)])  # [items + 1], popularity before each item
        self.ids = rng.permutation(settings.items).astype(np.int32)
        mass = np.diff(self.cumulative[self.starts])
        with np.errstate(divide="ignore"):
            self.log_mass = np.log(mass)  # [clusters]; -inf where none has come to a cluster
            self.log_best = np.full(clusters, -np.inf)  # of the most popular item
        filled = mass > 0
        self.log_best[filled] = np.log(popularity[self.starts[:-1][filled]])

    def popularity(self, places):
        """w of items by their places in the order of clusters."""
        return self.cumulative[places + 1] - self.cumulative[places]

    def tastes(self, stream, batch, users):
        """(latent vectors [users x rank], whose products with those of clusters have the variance beta^2; the stream)."""
        rng = np.random.default_rng([self.settings.seed, stream, batch])
        u = rng.standard_normal((users, self.settings.rank), dtype=np.float32)
        return u * np.float32(self.settings.beta) / np.linalg.norm(u, axis=1, keepdims=True), rng

    def probabilities(self, u):
        """[users x items] in the order of public numbers, of the first item that a user takes. For small catalogues."""
        weights = np.exp(u.astype(np.float64) @ self.vectors.T)  # [users x clusters]
        sizes = np.diff(self.starts)
        found = np.empty((len(u), self.settings.items))
        found[:, self.ids] = np.repeat(weights, sizes, axis=1) * np.diff(self.cumulative)
        return found / found.sum(axis=1, keepdims=True)

    def draw(self, u, rng, count):
        """[users x count] public numbers of different items for each user, in the order in which they are taken."""
        logits = u @ self.vectors.T + self.log_mass.astype(np.float32)
        edges = np.exp(logits - logits.max(axis=1, keepdims=True))
        edges = np.cumsum(edges, axis=1, dtype=np.float64)
        edges /= edges[:, -1:]
        edges += np.arange(len(u))[:, None]  # one rising sequence for all users
        places, active = np.empty((len(u), 0), np.int64), np.arange(len(u))
        chosen = np.full((len(u), count), -1, np.int64)
        draws = count + count // 4 + 8
        while len(active):
            more = self._places(edges, active, rng, draws)
            places = np.concatenate([places, more], axis=1)
            first, found = first_different(places, count)
            done = found >= count
            chosen[active[done]] = first[done]
            places, active, draws = places[~done], active[~done], places.shape[1]
            if places.shape[1] > 1000 * count + 100000:
                raise ValueError(f"users take almost nothing but the same {found.min()} items; {count} are asked for: lower beta")
        return self.ids[chosen]

    def _places(self, edges, users, rng, draws):
        """[users x draws] places, repeats among them."""
        clusters = edges.shape[1]
        wanted = rng.random((len(users), draws)) + users[:, None]
        cluster = np.searchsorted(edges.ravel(), wanted.ravel(), side="right") - np.repeat(users * clusters, draws)
        # A cluster without items has no width; a draw that is rounded up to the next user belongs to the last cluster.
        cluster = np.clip(cluster, 0, clusters - 1)
        below, above = self.starts[cluster], self.starts[cluster + 1]
        low, high = self.cumulative[below], self.cumulative[above]
        place = np.searchsorted(self.cumulative, low + rng.random(len(cluster)) * (high - low), side="right") - 1
        return np.clip(place, below, above - 1).reshape(len(users), draws)

    def best(self, u, known, count):
        """[users x count] public numbers by falling probability, those of `known` [users x any] left out: the oracle's lists."""
        return self.best_of_scores(u.astype(np.float64) @ self.vectors.T, known, count)

    def best_of_scores(self, scores, known, count):
        """The same by scores [users x clusters], logarithms to which that of an item's popularity is added."""
        depth = min(count + known.shape[1], self.settings.items)
        top = min(depth, len(self.vectors))
        lists = np.empty((len(scores), count), np.int64)
        for user, (own, seen) in enumerate(zip(scores.astype(np.float64, copy=False), known)):
            # An item of the first `depth` is in one of the `depth` clusters whose best items are the best.
            clusters = np.argpartition(own + self.log_best, -top)[-top:]
            sizes = np.minimum(self.starts[clusters + 1] - self.starts[clusters], depth)
            places = np.concatenate([np.arange(size) + self.starts[c] for c, size in zip(clusters, sizes)])
            value = np.repeat(own[clusters], sizes) + np.log(self.popularity(places))
            places = places[np.argsort(-value, kind="stable")[:depth]]
            numbers = self.ids[places]
            lists[user] = numbers[~np.isin(numbers, seen)][:count]
        return lists

    def clusters_of(self, items):
        """Clusters of items by their public numbers, in the shape of `items`."""
        places = np.empty_like(self.ids)
        places[self.ids] = np.arange(len(self.ids), dtype=np.int32)
        return np.searchsorted(self.starts, places[items], side="right") - 1

    def inferred(self, clusters, rng, steps=8, draws=32):
        """[clusters] logarithms of how often a user takes items of each, but for popularity, by the truth of all items and what a user has:
        `clusters` of the known items. The mean over draws of u from Laplace's approximation of its posterior, found by Newton's steps."""
        vectors, rank, count = self.vectors, self.settings.rank, len(clusters)
        precision = rank / self.settings.beta ** 2  # u is spread as evenly over directions as a normal vector of that length
        u, taken = np.zeros(rank), vectors[clusters].sum(axis=0, dtype=np.float64)
        for step in range(steps + 1):
            p = np.exp(vectors @ u.astype(np.float32) + self.log_mass.astype(np.float32))
            p /= p.sum()
            mean = p @ vectors
            bend = count * ((vectors * p[:, None]).T @ vectors - np.outer(mean, mean)) + precision * np.eye(rank)
            if step < steps:
                u = u + np.linalg.solve(bend, taken - count * mean - precision * u)
                u *= min(1.0, 1.5 * self.settings.beta / np.linalg.norm(u))
        spread = np.linalg.inv(np.linalg.cholesky(bend)).T @ rng.standard_normal((rank, draws))
        logits = (u[:, None] + spread).T.astype(np.float32) @ vectors.T  # [draws x clusters]
        of_items = logits[:, clusters].sum(axis=1) - count * np.log(np.exp(logits + self.log_mass.astype(np.float32)).sum(axis=1))
        of_draws = of_items - precision / 2 * ((u[:, None] + spread) ** 2).sum(axis=0) + 0.5 * (spread * (bend @ spread)).sum(axis=0)
        shares = np.exp(of_draws - of_draws.max())
        weights = np.exp(logits) / np.exp(logits + self.log_mass.astype(np.float32)).sum(axis=1, keepdims=True)
        return np.log(shares / shares.sum() @ weights)


def first_different(draws, count):
    """(the first `count` different values of each row in their order [rows x count], how many there are [rows])."""
    order = np.argsort(draws, axis=1, kind="stable")
    ordered = np.take_along_axis(draws, order, axis=1)
    fresh = np.ones(draws.shape, bool)
    np.put_along_axis(fresh, order[:, 1:], ordered[:, 1:] != ordered[:, :-1], axis=1)
    chosen = np.argsort(~fresh, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(draws, chosen, axis=1), fresh.sum(axis=1)


def users_of(catalogue, stream, users, threads=None):
    """(items [users x entries], in a random order, int32; latent vectors [users x rank])."""
    settings = catalogue.settings
    items = np.empty((users, settings.entries), np.int32)
    latent = np.empty((users, settings.rank), np.float32)

    def one_batch(batch):
        part = slice(batch * BATCH, min(users, (batch + 1) * BATCH))
        u, rng = catalogue.tastes(stream, batch, part.stop - part.start)
        taken = catalogue.draw(u, rng, settings.entries)
        items[part], latent[part] = rng.permuted(taken, axis=1), u

    with concurrent.futures.ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        list(pool.map(one_batch, range(-(-users // BATCH))))
    return items, latent


def lists_by_inference(catalogue, known, count, threads=None):
    """[users x count]: the best items for users of whom nothing is known but some items, by a model that knows the truth of all items."""
    clusters = catalogue.clusters_of(known)

    def one_user(user):
        rng = np.random.default_rng([catalogue.settings.seed, INFERRED, user])
        return catalogue.best_of_scores(catalogue.inferred(clusters[user], rng)[None], known[user:user + 1], count)

    with concurrent.futures.ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        return np.concatenate(list(pool.map(one_user, range(len(known)))))


def recall_of(lists, wanted):
    """Recall@K, the mean over users: lists [users x K] of item numbers, -1 where there are fewer; wanted [users x any], all different."""
    hits = [len(np.intersect1d(found, own)) for found, own in zip(np.asarray(lists), np.asarray(wanted))]
    return float(np.mean(hits) / wanted.shape[1])


def most_popular(counts, known, count):
    """[users x count]: the items with the largest `counts` [items], those of `known` [users x any] left out."""
    depth = min(len(counts), count + known.shape[1])
    first = np.argpartition(-counts, depth - 1)[:depth]
    first = first[np.argsort(-counts[first], kind="stable")]
    return np.stack([first[~np.isin(first, seen)][:count] for seen in known])


def make(settings, folder, top, threads=None):
    """Writes train.npy [users x entries], known.npy and wanted.npy [held-out users x entries of each]. Returns the Recall of the oracle,
    which knows users' tastes, of one that infers them from what is known of a user, and of popularity."""
    catalogue = Catalogue(settings)
    items, latent = users_of(catalogue, HELD_OUT, settings.held_out_users, threads)
    known, wanted = items[:, settings.held_out_entries:], items[:, :settings.held_out_entries]
    oracle = recall_of(catalogue.best(latent, known, top), wanted)
    train, _ = users_of(catalogue, TRAINED, settings.users, threads)
    counts = np.bincount(train.ravel(), minlength=settings.items)
    inferred = recall_of(lists_by_inference(catalogue, known, top, threads), wanted)
    bounds = {"oracle": oracle, "inferred": inferred, "popularity": recall_of(most_popular(counts, known, top), wanted),
              "items_that_are_trained": int(np.count_nonzero(counts))}
    for name, array in (("train", train), ("known", known), ("wanted", wanted)):
        np.save(folder / f"{name}.npy", np.ascontiguousarray(array))
    return bounds
