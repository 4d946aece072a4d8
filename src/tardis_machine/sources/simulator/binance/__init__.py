"""Binance traffic: combined streams of spot and futures, with generated REST answers."""
