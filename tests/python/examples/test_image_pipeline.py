"""The image pipeline against scikit-image and SciPy.

scikit-image's bilateral filter misplaces its spatial weights, so the two factors are compared one at a time: the range weights with a wide
spatial sigma, the spatial ones with SciPy's Gaussian filter.
"""

import image_pipeline
import numpy as np
import pytest

import quadrants as qd


@pytest.fixture
def photo():
    from skimage.data import camera

    qd.init(arch=qd.cpu, log_level="error")
    part = camera()[90:210, 180:310].astype(np.float32)
    return (part - part.min()) / (part.max() - part.min())


def test_range_weights_agree_with_scikit_image(photo):
    from skimage.restoration import denoise_bilateral

    ours = image_pipeline.denoise(photo, radius=4, sigma_range=0.1, sigma_space=1e6)
    theirs = denoise_bilateral(photo, win_size=9, sigma_color=0.1, sigma_spatial=1e6, mode="edge", bins=100_000)
    np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_space_weights_agree_with_scipy(photo):
    from scipy.ndimage import gaussian_filter

    ours = image_pipeline.denoise(photo, radius=6, sigma_range=1e6, sigma_space=2.0)
    theirs = gaussian_filter(photo, 2.0, mode="nearest", radius=6)
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_equalization_agrees_with_scikit_image(photo):
    from skimage.exposure import equalize_hist

    np.testing.assert_allclose(image_pipeline.equalize(photo), equalize_hist(photo, nbins=256), atol=2e-6)


def test_whole_pipeline_gives_an_image_with_a_flat_histogram():
    from skimage.data import coffee

    qd.init(arch=qd.cpu, log_level="error")
    result = image_pipeline.process(coffee()[::4, ::4], radius=2)
    assert result.dtype == np.uint8 and result.shape == coffee()[::4, ::4].shape
    luminance = result @ np.array([0.2126, 0.7152, 0.0722])
    quarters = np.percentile(luminance, [25, 50, 75]) / 255.0
    np.testing.assert_allclose(quarters, [0.25, 0.5, 0.75], atol=0.12)
