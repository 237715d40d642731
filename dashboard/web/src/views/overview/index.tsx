import { Loading } from "../../components";

export default function View() {
  return <div class="page"><Loading /></div>;
}
