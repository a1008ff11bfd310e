"""Sources that are followed: stores of files, read in a process of their own, and the documents that their files become."""
