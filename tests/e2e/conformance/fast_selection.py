"""The tests of modules with many slow ones that `make test` runs: one for each behaviour that no other test covers. The
others are marked `official`: `make official` runs them, and `make conformance` runs what they are forms of."""

FAST_SELECTION = {
    "auth/test_tokens_in_pods.py": {"test_projected"},
    "cli/test_kubectl.py": {"test_diff", "test_dry_run", "test_label"},
    "network/test_pods.py": {"test_same_port_of_the_host", "test_own_name_servers"},
    "node/test_changes.py": {"test_a_deadline_set_later", "test_generation_and_graceful_deletion", "test_lifecycle"},
    "node/test_classes.py": {"test_class_on_a_node", "test_ephemeral_container_sees_its_target"},
    "node/test_environment.py": {
        "test_config_map_as_environment",
        "test_name_namespace_and_address",
        "test_secret_in_a_variable",
        "test_variables_for_services",
        "test_writing_in_a_sub_path",
    },
    "node/test_images.py": {"test_defaults_of_the_image", "test_volume_of_an_image"},
    "node/test_lives.py": {
        "test_command_after_the_start",
        "test_init_container_that_fails",
        "test_init_containers_of_a_pod_that_goes_on",
        "test_message_from_the_log",
        "test_request_before_the_end",
    },
    "node/test_looking_in.py": {"test_commands_over_websockets", "test_logs_over_websockets"},
    "node/test_probing.py": {"test_command_that_fails", "test_grpc_that_serves", "test_never_ready"},
    "node/test_resizing.py": {"test_a_container_that_wants_to_be_restarted", "test_net_decrease", "test_net_increase"},
    "node/test_security.py": {
        "test_host_aliases",
        "test_no_privileges_are_gained",
        "test_read_only_root",
        "test_sysctl",
        "test_user_and_group_of_a_container",
    },
    "scheduling/test_limit_range.py": {"test_collections"},
    "scheduling/test_predicates.py": {"test_a_node_selector_that_matches"},
    "scheduling/test_preemption.py": {"test_basic_preemption"},
    "storage/test_config_maps.py": {"test_consumable_as_non_root", "test_projected_mappings", "test_updates"},
    "storage/test_downward_api.py": {"test_allocatable_memory", "test_labels", "test_projected_together"},
    "storage/test_empty_dir.py": {"test_non_root_0777_tmpfs", "test_shared_between_containers"},
    "storage/test_secrets.py": {"test_optional_updates", "test_projected_non_root_with_a_group"},
    "storage/test_subpath.py": {"test_a_file_that_is_there", "test_config_map"},
}
