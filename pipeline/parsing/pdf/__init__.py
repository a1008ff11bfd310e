"""PDF files: `pages` reads them, page by page, by the words and rules that `contents` finds."""
