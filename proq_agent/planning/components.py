"""What hangs together in a directed graph: its strongly connected components, and which leads to which."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, shortest_path


@dataclass(frozen=True, eq=False)
class Components:
    """
    Strongly connected components. Use :meth:`of` to find them.
    """

    nodes: np.ndarray  #: ``[n]`` those that were looked at, in ascending order
    labels: np.ndarray  #: ``[n]`` the component of each
    number: int  #: of components
    links: csr_array  #: ``[number, number]`` which have an edge to which

    @classmethod
    def of(cls, nodes: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Components:
        """
        :param nodes: ``[n]`` in ascending order
        :param starts: ``[E]`` nodes where edges begin, all of them among ``nodes``
        :param ends: ``[E]`` nodes where they end
        """
        rows, columns = (np.searchsorted(nodes, part) for part in (starts, ends))
        graph = csr_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(len(nodes), len(nodes)))
        number, labels = connected_components(graph, connection="strong") if len(nodes) else (0, nodes)
        links = csr_array((np.ones(len(rows), dtype=bool), (labels[rows], labels[columns])), shape=(number, number))
        return cls(nodes, labels, int(number), links)

    @cached_property
    def leads_to(self) -> np.ndarray:
        """``[number, number]`` bool, from which component there is a way to which, itself included."""
        if not self.number:
            return np.zeros((0, 0), dtype=bool)
        return np.isfinite(shortest_path(self.links, unweighted=True))

    def any(self, marked: np.ndarray) -> np.ndarray:
        """``[B, number]`` bool, in which components some of the nodes are marked ``[B, n]``."""
        rows, columns = np.nonzero(marked)
        found = np.zeros((len(marked), self.number), dtype=bool)
        found[rows, self.labels[columns]] = True
        return found

    @property
    def connected_pairs(self) -> float:
        """Number of ordered pairs of different nodes with a way from one to the other."""
        sizes = np.bincount(self.labels, minlength=self.number).astype(np.float64)
        return float(sizes @ self.leads_to @ sizes) - len(self.nodes)
