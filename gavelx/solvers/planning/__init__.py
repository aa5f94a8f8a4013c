"""Programs over time, which no policy states in terms.

`queue_matching` says which job runs where in what order (AlloX); `fluid` is work with arrivals and deadlines,
`purchase` the cheapest whole instances that do it in time.
"""
