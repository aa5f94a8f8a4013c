"""Money: what a run costs under any price table, and the energy and carbon that it took.

``bill`` turns device time into dollars that add up to the cent, ``energy`` into kilowatt-hours and grams of
CO2 equivalent, ``check`` raises the alarms that real price tables need.
"""
