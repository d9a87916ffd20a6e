"""Regex stops: patterns are compiled to automata, and matched letter by letter."""
