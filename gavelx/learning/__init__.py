"""Learning to schedule, with torch (the extra ``train``): what is learned is a weights file that needs no torch.

`imitate` learns from a schedule that looks ahead; :class:`gavelx.policies.Learned` decides by what it writes.
"""
