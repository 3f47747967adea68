export function ConversationDetail({ id }: { id: string }) {
  return <section className="panel">{id}</section>;
}
