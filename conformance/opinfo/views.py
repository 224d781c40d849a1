"""Programs that write through views, for torch and pyflame alike: values and gradients of both are compared.

Each takes the library and two tensors that require gradients, of shapes (3, 4) and (4,), and returns a tensor.
"""


def rows(lib, x, y):
    z = x * 2
    z[1] = y
    z[0].mul_(y)
    return z


def columns(lib, x, y):
    z = x * 2
    z.T[1].add_(y[:3])
    z[:, 2] = y[1]
    return z * z


def views_before_the_write(lib, x, y):
    z = x + 1
    flat, top, turned = z.view(-1), z[0], z.T
    z[1:].mul_(y)
    return flat.sum() * top + turned[:, 1].sum()


def write_through_a_view_of_a_view(lib, x, y):
    z = x * x
    z[1:].T[2:][0].sub_(y[:2])
    return z


def write_to_a_plain_tensor(lib, x, y):
    z = lib.zeros(4, 4)
    z[:3] = x
    z.diagonal().add_(y)
    z[3].copy_(y * y)
    return z.cos()


def accumulate(lib, x, y):
    z = lib.zeros(4)
    for n in range(3):
        z += x[n] * y
        z[n] *= 2
    return z


def product_with_itself(lib, x, y):
    z = x * 1
    z.mul_(z.clone())
    z[0].mul_(z[1].clone())
    return z


def saved_by_the_operation(lib, x, y):
    z = x * 1
    z.mul_(y)
    z.div_(y * y + 1)
    return z


def filled(lib, x, y):
    z = x * y
    z[1].fill_(2.0)
    z[2].zero_()
    return z * y


def masked(lib, x, y):
    z = x * 3
    z[z > 0] = 0.5
    return z * x


def looked_up(lib, x, y):
    z = x * 3
    z[[0, 2], [1, 3]] = y[:2]
    return z * 2


def clamped(lib, x, y):
    z = x * y
    z[:, 1:].clamp_(-0.3, 0.4)
    return z


def narrow_of_expanded(lib, x, y):
    z = (y * 2).expand(3, 4).clone()
    z.narrow(1, 1, 2).mul_(x[:, :2])
    return z


def detached_shares(lib, x, y):
    z = x * 2
    kept = z.detach()
    w = z + y
    kept[0] = 5.0
    return w + z.detach()


def reshaped(lib, x, y):
    z = x * 1
    z.reshape(4, 3)[1].add_(y[:3])
    z.unsqueeze(0).squeeze(0)[2].mul_(y)
    return z.sin()


def unfolded(lib, x, y):
    z = y * 1
    w = z.unfold(0, 2, 1)
    z[1:3].mul_(x[0, 1:3])
    return w.sum(0) * 2 + w[1]


def parts(lib, x, y):
    z = x * y
    first, second = z.narrow(1, 0, 2), z.narrow(1, 2, 2)
    first.mul_(2.0)
    second[1].add_(y[2:])
    z.select(0, 0).add_(z.select(0, 1))
    return z


PROGRAMS = {name: function for name, function in dict(globals()).items() if callable(function)}


# Programs that both libraries refuse.


def leaf(lib, x, y):
    x.add_(1)


def view_of_a_leaf(lib, x, y):
    x[0].add_(1)


def expanded(lib, x, y):
    (y * 1).expand(3, 4).add_(1)


def saved_and_changed(lib, x, y):
    z = x * 1
    w = z * y
    z.add_(1)
    w.sum().backward()


def result_changed(lib, x, y):
    z = x.exp()
    z[0] = 1.0
    z.sum().backward()


def saved_view_changed(lib, x, y):
    z = y * 1
    w = x * z.view(1, 4)
    z.detach()[0] = 3.0
    w.sum().backward()


REFUSED = {
    function.__name__: function
    for function in (leaf, view_of_a_leaf, expanded, saved_and_changed, result_changed, saved_view_changed)
}
