/** Widgets that all views share. */
export { Age } from "./Age";
export { ActionButton, Button } from "./Button";
export { Dialog } from "./Dialog";
export { Empty, Loading } from "./Empty";
export { ErrorBox } from "./ErrorBox";
export { Checkbox, Field, Search, Select } from "./Field";
export { Icon } from "./Icon";
export { CopyButton, KubectlHint } from "./KubectlHint";
export { Meter } from "./Meter";
export { Status, statusLevel, type Level } from "./Status";
export { Table, useMedia, type Column, type Sort } from "./Table";
export { Tabs, type Tab } from "./Tabs";
