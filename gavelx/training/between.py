"""What happens between two steps: the job reports, saves, leaves or changes its size, if all processes agree."""

from collections.abc import Callable
from typing import Any

from gavelx.errors import UserError
from gavelx.training.gang import Agreement
from gavelx.training.lease import Lease
from gavelx.training.reports import Reports
from gavelx.training.resizable import Resizable
from gavelx.training.saving import Saving
from gavelx.training.votes import Votes


class Between:
    """Decides and acts between two steps. ``agreement`` is that of the processes that there are now.

    ``told`` gives what the agent is told of how far the training is.
    """

    def __init__(
        self,
        lease: Lease,
        reports: Reports,
        saving: Saving,
        elastic: Resizable | None,
        told: Callable[[], dict[str, Any]],
    ) -> None:
        self._lease, self._reports, self._told = lease, reports, told
        self.saving, self.elastic, self._begun = saving, elastic, False
        self._votes = Votes(saving.state.progress, lease, elastic.regroup if elastic else None)

    def begin(self) -> None:
        """Resume from the newest checkpoint. A process that joins gets its state from the others, later."""
        self._begun = True
        self.saving.begin()
        if self.elastic is not None and self.elastic.joins:
            return
        self.agreement = Agreement() if self.elastic is None else self.elastic.agree()
        self.saving.state.bits.check_wrapper(self.agreement.world_size)
        self.saving.resume(self.agreement)
        self.saving.begin()
        self._votes.begin()
        self.report()

    def check_begun(self) -> None:
        """Raises :class:`UserError` for a loop outside of the block, which would neither resume nor save."""
        if not self._begun:
            raise UserError(
                "the loop is not in its block", where="Training", expected="with Training(...) as training: ..."
            )

    def join(self) -> None:
        """As a joiner, in its first epoch, once it is warm: join the others."""
        assert self.elastic is not None
        self._resized(self.elastic.join(stopping=lambda: self._lease.over(0, 0.0)))
        self.saving.changed = True

    def steps(self, every_s: float, *, finished: bool) -> None:
        """Do what is due after a step. ``every_s``: between checkpoints. Raises ``SystemExit(0)`` to leave."""
        if self.agreement.rank == 0 and self._reports.due():
            self.report()
        if not self._votes.due:
            return
        last = self.saving.newest
        save, save_s = self.saving.due(every_s), last.seconds if last else 0.0
        all_ = self._votes.take(self.agreement, save=save, save_s=save_s)
        if finished:
            return  # the end of the block saves
        if all_.stop:
            self.save()
            raise SystemExit(0)
        if all_.save:
            self.save()
        if self.elastic is not None and all_.ready and all_.generation > self.elastic.generation:
            self._resized(self.elastic.change_size())

    def _resized(self, agreement: Agreement) -> None:
        """The processes are others from now on."""
        self.agreement = agreement
        if self._lease.lease_id is not None:
            self._reports.lease_id = self._lease.lease_id
        self._votes.begin()
        self.report()

    def save(self) -> bool:
        """Save, unless nothing changed, and return whether all is safe."""
        if not self.saving.changed:
            return True
        self.report(saving=True)
        saved = self.saving.save(self.agreement)
        self.report()
        return saved

    def report(self, *, saving: bool = False) -> None:
        """Tell the agent how far the job is, and whether it is ``saving``; the first process does so for all."""
        if self.agreement.rank > 0:
            return
        saved = self.saving.newest
        self._reports.write(
            **self._told(),
            saving=saving,
            checkpoint_s=saved.seconds if saved else None,
            checkpoint_bytes=saved.bytes if saved else None,
            **(self.elastic.report() if self.elastic else {}),
        )
