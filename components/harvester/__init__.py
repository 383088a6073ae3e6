"""Role of the harvester: offers of free capacity to functions, and news of them for function servers and routers.

component   the harvester itself: facts folded, everything due
state       the memory: images, calm nodes by zone, function servers
proposals   offers of a zone's nodes, and recalls by the pool's settings
servers     sizes that function servers are told, and the releases that follow from their answers
shown       figures for operators
"""

from components.harvester.component import Harvester

__all__ = ["Harvester"]
