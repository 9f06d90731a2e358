"""Numbers of the cells of sparse nodes."""

import quadrants as qd


@qd.func
def number_of(digits: qd.template(), counter: qd.template(), I):  # noqa: E741
    """Returns the number of the cell at an index."""
    number = qd.cast(0, counter)
    for k in qd.static(range(len(digits))):
        steps = qd.cast(I[qd.static(digits[k][0])] - qd.static(digits[k][1]), qd.u32) // qd.static(digits[k][2])
        if qd.static(digits[k][3] > 0):
            steps = steps % qd.static(max(1, digits[k][3]))
        number += qd.cast(steps, counter) * qd.static(digits[k][4])
    return number
