"""How a host takes messages: the mailbox that sorts them, and the turns in which they are decided."""
