"""Regex stops: patterns are read, compiled to automata, and matched letter by letter."""
