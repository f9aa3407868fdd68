"""The legend of a timeline: what each shape means."""

LEGEND = (
    (
        '<rect y="-6" width="18" height="12" rx="2" fill="{hue}"/>',
        "has a right to believe that it holds",
    ),
    (
        (
            '<rect y="-6" width="18" height="12" rx="2" fill="url(#late)" stroke="{hue}" '
            'stroke-width="1.2"/>'
        ),
        "goes on, its time over",
    ),
    ('<rect y="-6" width="18" height="12" rx="2" class="band"/>', "fault in force"),
    ('<circle cx="10" r="3.5" fill="{hue}"/>', "write applied"),
    (
        (
            '<path d="M6 -4l8 8m0 -8l-8 8" fill="none" class="bad" stroke-width="2.2" '
            'stroke-linecap="round"/>'
        ),
        "stale write refused",
    ),
    (
        '<circle cx="10" r="4.5" fill="{hue}" class="bad" stroke-width="2.2"/>',
        "stale write applied: an update was lost",
    ),
)
