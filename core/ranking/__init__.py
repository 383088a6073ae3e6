"""Who is next: what a wait and a tenant's use are worth, who is within quota, and the order that follows. Pure."""
