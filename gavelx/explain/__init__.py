"""What an allocation means to those who get it: properties as numbers, reasons as words.

`properties` measures sharing incentive, envy and Pareto efficiency of any allocation, whatever policy made it.
"""
