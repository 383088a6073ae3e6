"""What things are, and which decisions are right: nouns, facts, messages, images, rules. Pure; imports nothing of ours."""
