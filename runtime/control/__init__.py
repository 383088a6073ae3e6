"""What runs an application's own controller, wherever: in its user's process, in a scenario, in a bench."""
