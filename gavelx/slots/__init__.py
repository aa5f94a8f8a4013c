"""The slot model: many small clusters at once, in arrays, from one slot to the next.

It is the simulator without its machinery, to look at thousands of futures: `model` has the jobs, their sizes and
what happens in a slot, `greedy` schedules that are cheap to play, `ahead` one that plays others before it decides.
"""
