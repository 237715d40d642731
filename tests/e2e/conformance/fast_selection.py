"""The tests that `make test` runs from modules with many slow tests: one test for each behavior that is covered
nowhere else. The other tests of these modules are marked `official`, and `make official` runs them. `make conformance`
runs the upstream tests."""

FAST_SELECTION: dict[str, set[str]] = {
    "apimachinery/test_watchers.py": {
        "test_watch_from_a_resource_version",
        "test_object_that_leaves_the_selector_is_reported_deleted",
        "test_watches_with_different_label_selectors",
    },
    "apps/test_cron_job.py": {"test_job_is_replaced_with_policy_replace"},
    "apps/test_disruption_controller.py": {"test_eviction_is_blocked_until_the_budget_allows_it"},
    "auth/test_tokens_in_pods.py": {"test_projected_token"},
    "cli/test_kubectl.py": {"test_diff", "test_dry_run", "test_label"},
    "network/test_endpoint_slices.py": {"test_mirroring", "test_slices_for_pods_that_match_a_service"},
    "network/test_pods.py": {"test_same_host_port_with_different_host_ip_or_protocol", "test_dns_config_nameservers"},
    "node/test_pod_updates.py": {
        "test_active_deadline_seconds_is_updated",
        "test_generation_and_graceful_deletion",
        "test_lifecycle",
    },
    "node/test_classes.py": {
        "test_pod_of_a_runtime_class_with_known_handler_starts",
        "test_ephemeral_container_shares_processes_of_its_target",
    },
    "node/test_environment.py": {
        "test_env_from_config_map",
        "test_downward_api_pod_name_namespace_and_ip",
        "test_variable_from_secret_key",
        "test_service_environment_variables",
        "test_expanded_sub_path_is_writable",
    },
    "node/test_images.py": {"test_command_and_args_default_to_the_image", "test_image_volume"},
    "node/test_container_lifecycle.py": {
        "test_post_start_exec_hook",
        "test_failed_init_container_of_a_restart_never_pod",
        "test_init_containers_of_a_restart_always_pod",
        "test_termination_message_from_the_log",
        "test_pre_stop_http_hook",
    },
    "node/test_logs_exec_proxy.py": {"test_exec_over_websockets", "test_logs_over_websockets"},
    "node/test_probes.py": {
        "test_failed_exec_liveness_probe_restarts_the_container",
        "test_successful_grpc_liveness_probe_does_not_restart",
        "test_failed_readiness_probe_keeps_the_pod_not_ready",
    },
    "node/test_resizing.py": {"test_resize_policy_restart_container", "test_net_decrease", "test_net_increase"},
    "node/test_security.py": {
        "test_host_aliases",
        "test_allow_privilege_escalation",
        "test_read_only_root_filesystem",
        "test_sysctl",
        "test_run_as_user_and_group_of_a_container",
    },
    "scheduling/test_limit_range.py": {"test_list_patch_and_delete_collection"},
    "scheduling/test_predicates.py": {"test_matching_node_selector"},
    "scheduling/test_preemption.py": {"test_basic_preemption"},
    "storage/test_config_maps.py": {"test_consumable_as_non_root", "test_projected_mappings", "test_updates"},
    "storage/test_downward_api.py": {
        "test_allocatable_memory",
        "test_label_updates",
        "test_projected_volume_with_all_sources",
    },
    "storage/test_empty_dir.py": {"test_non_root_0777_tmpfs", "test_shared_between_containers"},
    "storage/test_secrets.py": {"test_optional_updates", "test_projected_non_root_with_fs_group"},
    "storage/test_subpath.py": {"test_existing_file_as_mount_path", "test_config_map"},
}
