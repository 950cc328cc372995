"""The rivals: one file a method, the same verbs as Recap (see recap.drafter.Drafter)."""

import recap
from recap.compiled import drop_stale

drop_stale(recap.__file__, __file__)
