"""What an application's own controller is made of: the class that a user subclasses, and what runs and tests it."""
