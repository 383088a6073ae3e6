"""Routing: to which function server the next call of a function goes, and to which router a function belongs. Pure: time is handed in.

policy          the interface: a server as the router sees it, a function's load, its set, a decision
ring            the ring of servers, on which each function has a home; rendezvous hashing over routers
rates           estimates of a function's load: calls over a true window, smoothed run times; the published estimator
load            the score of a server, and the ceiling under which sets are planned
members         the size of a set from decision to decision
mws             Min-Worker-Set, the policy in use
mws_published   Min-Worker-Set as published
jsq             join the shortest queue
hash            a home and a step by hash, as in plain OpenWhisk
"""

from core.routing.hash import HashedHome
from core.routing.jsq import JoinShortestQueue
from core.routing.mws import MinWorkerSet
from core.routing.mws_published import PublishedMinWorkerSet
from core.routing.policy import RoutingPolicy

POLICIES: dict[str, RoutingPolicy] = {
    one.name: one for one in (MinWorkerSet(), JoinShortestQueue(), HashedHome(), PublishedMinWorkerSet())
}
"""The policies by name: one file each. A new one is one file and one entry here."""
