"""Settings of a study of short runs that really learn, for benchmarks that disturb them."""

_SETTINGS = """
[settings]
world = {{ episode_frames = 1_200 }}
schedule = {{ iteration_steps = 500 }}
exploration = {{ epsilon_decay_steps = 500 }}
machine = {{ checkpoint_minutes = {checkpoint_minutes} }}

[settings.agent]
replay_capacity = 600
min_history_steps = 200
target_update_steps = 200
batch_size = 8
convolution_channels = [4, 4, 4]
hidden_units = 16
"""


def settings(checkpoint_minutes: float) -> str:
    """Return the settings as tables of a study's file, with checkpoints that often."""
    return _SETTINGS.format(checkpoint_minutes=checkpoint_minutes)
