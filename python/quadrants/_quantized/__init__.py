"""Fields whose elements are numbers of few bits, parts of words that they share: their places, and conversions between bits and values."""
