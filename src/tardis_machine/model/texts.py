"""Texts that others sent, as error texts and logs repeat them."""

SHOWN_CHARACTERS = 200


def shortened(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    """Cut a text that is longer than what a reader needs, and say how long it was."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text)} characters)"
