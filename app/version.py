"""Which version of the program this is."""


def version() -> str:
    """The installed version of the distribution."""
    from importlib import metadata

    try:
        return metadata.version("cutaway")
    except metadata.PackageNotFoundError:
        return "(not installed)"
