"""Results for people: plots and a report.

``words`` says how figures look, ``series`` computes what is drawn, ``plots`` draws it, ``html`` writes the report.
"""
