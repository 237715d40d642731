"""The configuration of a scheduler (compare `pkg/scheduler/apis/config`, its `validation` and `cmd/kube-scheduler`).

`scheduler_config` has the settings, `config_file` reads KubeSchedulerConfiguration files, `plugin_args` reads and
validates plugin arguments.
"""

from sampan.scheduler.config.scheduler_config import (
    DEFAULT_PLUGINS,
    PluginChoice,
    PointChoice,
    ProfileConfig,
    SchedulerConfig,
)

__all__ = ["DEFAULT_PLUGINS", "PluginChoice", "PointChoice", "ProfileConfig", "SchedulerConfig"]
