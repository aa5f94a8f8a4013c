"""Linear programs as arrays, by HiGHS: `highs`; `column_generation` for very many columns; `integer`."""
