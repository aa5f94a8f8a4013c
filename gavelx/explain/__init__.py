"""What an allocation means to those who get it, whatever policy made it.

`properties` measures what each job has against an equal share, whom it envies, and what nobody would miss;
`reasons` says in words what keeps a job from running faster, and what one more device is worth; `explanation`
puts both together as data, for people and for programs.
"""
