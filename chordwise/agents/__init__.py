"""Adapters for agents and frameworks. Their documented names stand at the root of the package: `chordwise.langchain`."""
