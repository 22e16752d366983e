"""List the mutants that the checks of the named exercises accept: python -m tests.mutants 1.5 2.1"""

import sys

from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.judging import difference_from_a_right_answer, judged, mutants_of

if len(sys.argv) < 2:
    sys.exit("expected ids of exercises, as in: python -m tests.mutants 1.5 2.1")
for exercise_id in sys.argv[1:]:
    mutants = mutants_of(exercise_id)
    accepted = [mutant for mutant, said in zip(mutants, judged(mutants), strict=True) if not said]
    print(f"{exercise_id}: {len(mutants)} mutants, {len(accepted)} accepted")
    for mutant, differs in zip(accepted, judged(accepted, difference_from_a_right_answer), strict=True):
        reason = EQUIVALENT.get(exercise_id, {}).get(mutant.what)
        print(f"  {mutant.what}\n    {differs or 'no difference found'}; {reason or 'not listed as equivalent'}")
