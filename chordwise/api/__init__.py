"""The resources of the HTTP interface: what each operation sends, and the records it returns."""
