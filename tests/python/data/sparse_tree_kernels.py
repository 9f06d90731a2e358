"""The kernels of random programs on sparse trees. Elements are numbers, vectors or matrices: component k of an element is number + k."""

from __future__ import annotations

import quadrants as qd

Places = qd.types.NDArray[qd.i32, 2]
Numbers = qd.types.NDArray[qd.i32, 1]


@qd.func
def element_of(shape: qd.template(), number):
    """Returns what is written as an element."""
    if qd.static(len(shape) == 0):
        return number
    if qd.static(len(shape) == 1):
        return qd.Vector([number + k for k in qd.static(range(shape[0]))])
    return qd.Matrix([[number + r * shape[1] + c for c in qd.static(range(shape[1]))] for r in qd.static(range(shape[0]))])


@qd.func
def place_of(places: qd.template(), n, rank: qd.template()):
    """Returns row n as an index."""
    return qd.Vector([places[n, k] for k in qd.static(range(rank))])


@qd.func
def without_offset(I, origin: qd.template()):  # noqa: E741
    """Returns an index that counts from 0."""
    return I - qd.Vector([qd.static((origin or (0,) * 4)[k]) for k in qd.static(range(I.n))])


@qd.func
def sum_of(I):  # noqa: E741
    """Returns the sum of the components of an index."""
    total = 0
    for k in qd.static(range(I.n)):
        total += I[k]
    return total


@qd.kernel
def assign(x: qd.Template, places: Places, numbers: Numbers):
    for n in range(numbers.shape[0]):
        x[place_of(places, n, len(x.shape))] = element_of(x.element_shape, numbers[n])


@qd.kernel
def add(x: qd.Template, places: Places, numbers: Numbers):
    for n in range(numbers.shape[0]):
        x[place_of(places, n, len(x.shape))] += element_of(x.element_shape, numbers[n])


@qd.kernel
def raise_to(x: qd.Template, places: Places, numbers: Numbers):
    for n in range(numbers.shape[0]):
        qd.atomic_max(x[place_of(places, n, len(x.shape))], element_of(x.element_shape, numbers[n]))


@qd.kernel
def component(x: qd.Template, places: Places, numbers: Numbers):
    for n in range(numbers.shape[0]):
        if qd.static(len(x.element_shape) == 1):
            x[place_of(places, n, len(x.shape))][0] = numbers[n]
        else:
            x[place_of(places, n, len(x.shape))][0, 0] = numbers[n]


@qd.kernel
def write_structs(x: qd.Template, places: Places, numbers: Numbers, whole: qd.Template):
    for n in range(numbers.shape[0]):
        I = place_of(places, n, len(x.shape))  # noqa: E741
        if qd.static(whole):
            x[I] = qd.types.struct(a=qd.i32, v=qd.types.vector(2, qd.f32))(a=numbers[n], v=[numbers[n], numbers[n] + 1])
        else:
            x[I].v[1] = numbers[n]


@qd.kernel
def set_active(node: qd.Template, places: Places, is_on: qd.Template):
    for n in range(places.shape[0]):
        if qd.static(is_on):
            qd.activate(node, [places[n, k] for k in qd.static(range(len(node._own_shape)))])
        else:
            qd.deactivate(node, [places[n, k] for k in qd.static(range(len(node._own_shape)))])


@qd.kernel
def append(node: qd.Template, places: Places, shape: qd.Template, numbers: Numbers):
    qd.loop_config(serialize=True)
    for n in range(numbers.shape[0]):
        qd.append(node, [places[n, k] for k in qd.static(range(len(node._own_shape)))], element_of(shape, numbers[n]))


@qd.kernel
def append_in_parallel(node: qd.Template, places: Places, shape: qd.Template, numbers: Numbers):
    for n in range(numbers.shape[0]):
        qd.append(node, [places[n, k] for k in qd.static(range(len(node._own_shape)))], element_of(shape, numbers[n]))


@qd.kernel
def append_to_field(x: qd.Template, places: Places, rank: qd.Template, shape: qd.Template, numbers: Numbers):
    qd.loop_config(serialize=True)
    for n in range(numbers.shape[0]):
        if qd.static(rank == 0):
            x.append(element_of(shape, numbers[n]))
        elif qd.static(rank == 1):
            x[places[n, 0]].append(element_of(shape, numbers[n]))
        elif qd.static(rank == 2):
            x[places[n, 0], places[n, 1]].append(element_of(shape, numbers[n]))
        else:
            x[places[n, 0], places[n, 1], places[n, 2]].append(element_of(shape, numbers[n]))


@qd.kernel
def update_own(x: qd.Template):
    for I in qd.grouped(x):  # noqa: E741
        x[I] = x[I] * 2 + 1


@qd.kernel
def update_indexed(x: qd.Template):
    for I in qd.grouped(x):  # noqa: E741
        x[I] += sum_of(I)


@qd.kernel
def update_inside(x: qd.Template):
    for _ in range(1):
        for I in qd.grouped(x):  # noqa: E741
            x[I] += 1


@qd.kernel
def stencil(x: qd.Template, y: qd.Template, last: qd.i32):
    for I in qd.grouped(x):  # noqa: E741
        J = I
        J[len(x.shape) - 1] = qd.min(J[len(x.shape) - 1] + 1, last)
        y[I] = x[I] + x[J]


@qd.kernel
def scatter(x: qd.Template, y: qd.Template, marks: qd.types.NDArray, step: qd.i32):
    for I in qd.grouped(x):  # noqa: E741
        at = without_offset(I, x._offset)
        if marks[at] != 0:
            number = 0
            for k in qd.static(range(len(x.shape))):
                number = number * x.shape[k] + at[k]
            number *= step
            J = qd.Vector([0 for _ in qd.static(range(len(y.shape)))])
            for k in qd.static(range(len(y.shape) - 1, -1, -1)):
                J[k] = number % y.shape[k] + qd.static((y._offset or (0,) * 12)[k])
                number = number // y.shape[k]
            y[J] += element_of(y.element_shape, 1)


@qd.kernel
def prune(node: qd.Template):
    for I in qd.grouped(node):  # noqa: E741
        at = without_offset(I, node._loop.origin)
        if sum_of(at) % 3 == 0:
            qd.deactivate(node, at)


@qd.kernel
def rewrite(node: qd.Template, x: qd.Template):
    for I in qd.grouped(x):  # noqa: E741
        at = without_offset(I, x._offset)
        if sum_of(at) % 3 == 0:
            qd.deactivate(node, at)
            x[I] = element_of(x.element_shape, 5)


@qd.kernel
def write_without_tests(x: qd.Template, node: qd.Template, places: Places, numbers: Numbers):
    qd.no_activate(node)
    for n in range(numbers.shape[0]):
        x[place_of(places, n, len(x.shape))] = element_of(x.element_shape, numbers[n])


@qd.kernel
def square_sum(x: qd.Template, loss: qd.Template):
    for I in qd.grouped(x):  # noqa: E741
        loss[None] += 3.0 * x[I] ** 2


@qd.kernel
def visit(x: qd.Template, seen: qd.types.NDArray):
    for I in qd.grouped(x):  # noqa: E741
        seen[without_offset(I, x._offset)] += 1


@qd.kernel
def visit_inside(x: qd.Template, seen: qd.types.NDArray):
    for _ in range(1):
        for I in qd.grouped(x):  # noqa: E741
            seen[without_offset(I, x._offset)] += 1


@qd.kernel
def visit_plain(x: qd.Template, seen: qd.types.NDArray):
    if qd.static(len(x.shape) == 1):
        for i in x:
            seen[without_offset(qd.Vector([i]), x._offset)] += 1
    elif qd.static(len(x.shape) == 2):
        for i, j in x:
            seen[without_offset(qd.Vector([i, j]), x._offset)] += 1
    elif qd.static(len(x.shape) == 3):
        for i, j, k in x:
            seen[without_offset(qd.Vector([i, j, k]), x._offset)] += 1
    else:
        for i, j, k, l in x:
            seen[without_offset(qd.Vector([i, j, k, l]), x._offset)] += 1


@qd.kernel
def add_up(x: qd.Template) -> qd.f64:
    total = qd.cast(0, qd.f64)
    for I in qd.grouped(x):  # noqa: E741
        if qd.static(len(x.element_shape) == 0):
            total += qd.cast(x[I], qd.f64)
        for place in qd.static(qd.grouped(qd.ndrange(*x.element_shape)) if len(x.element_shape) else ()):
            total += qd.cast(x[I][place], qd.f64)
    return total


@qd.kernel
def count(node: qd.Template) -> qd.i32:
    total = 0
    for I in qd.grouped(node):  # noqa: E741
        total += 1
    return total


@qd.kernel
def ask(node: qd.Template, places: Places, is_list: qd.Template, result: Numbers):
    for n in range(result.shape[0]):
        if qd.static(is_list):
            result[n] = qd.length(node, [places[n, k] for k in qd.static(range(len(node._own_shape)))])
        else:
            result[n] = qd.is_active(node, [places[n, k] for k in qd.static(range(len(node._own_shape)))])
