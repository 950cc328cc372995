"""Reads records only: metrics, intervals, tables. No torch."""
